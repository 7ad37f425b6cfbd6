"""Programs of StableHLO as ONNX graphs, for whatever engine takes those."""
