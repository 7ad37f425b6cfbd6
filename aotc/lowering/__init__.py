"""From a lowered jax function to a `Module`: portable StableHLO without traces of the source."""
