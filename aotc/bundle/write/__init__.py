"""From built parts to a bundle on disk: aligned weights, OCI layout, atomic archive."""
