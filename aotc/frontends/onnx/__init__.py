"""ONNX models as JAX functions, by an operator table of our own over jax.numpy and jax.lax."""
