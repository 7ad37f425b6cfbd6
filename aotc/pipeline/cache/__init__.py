"""The build cache: results of tasks, by the digest of everything that they depend on."""
