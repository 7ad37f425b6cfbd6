"""Read and print MLIR modules, without jax."""
