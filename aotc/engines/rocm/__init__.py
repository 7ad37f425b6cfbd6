"""AMD GPUs as a kind of targets, for which nothing here compiles."""
