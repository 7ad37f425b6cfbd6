"""Model files of other frameworks as JAX functions: what a build manifest names by `source`."""
