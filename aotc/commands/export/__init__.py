"""Models of a verified bundle for the plain runtimes of other languages."""
