"""From a lowered jax function to a `Module`: portable StableHLO with nothing of the source in it."""
