"""Compares every executable with plain JAX as in production: without jax, in a fresh process."""
