"""ONNX Runtime as a compiler of processors' code: StableHLO becomes an ONNX graph."""
