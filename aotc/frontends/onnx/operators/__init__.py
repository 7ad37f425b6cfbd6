"""What each operator of ONNX computes, one module per family.

`onnx_operator_table` finds them by name.
"""
