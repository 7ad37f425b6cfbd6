"""ONNX operators as jax functions, by family; `onnx_operator_table` finds them by name."""
