"""ONNX Runtime as an engine: one executable is one ONNX graph."""
