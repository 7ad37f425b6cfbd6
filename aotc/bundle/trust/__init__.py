"""Trust policies: written, changed in place, and checked."""
