"""Files that Keras 3 saves (`.keras`), through Keras on its JAX backend."""
