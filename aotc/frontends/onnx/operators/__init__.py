"""ONNX operators as jax functions, one module per family; `table.py` finds them by name."""
