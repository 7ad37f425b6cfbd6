"""StableHLO modules, programs exported by `jax.export` and TensorFlow exports."""
