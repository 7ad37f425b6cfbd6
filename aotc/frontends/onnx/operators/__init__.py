"""What each operator of ONNX computes, one module per family; `table.py` finds them by name."""
