"""Every executable against plain JAX, run as production runs it: jax-free, in a fresh process."""
