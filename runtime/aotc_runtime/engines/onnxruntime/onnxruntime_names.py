"""Names within graphs for ONNX Runtime, for the compiler and the engine."""

ENGINE = "onnxruntime"
"""The engine, and the platform of processors that it runs on."""

PROVIDER = "CPUExecutionProvider"
"""ONNX Runtime's word for the processor."""

WEIGHTS = "weights"
"""Where the graph says that its weights lie, which is nowhere: they are handed over."""

POOLED = "aotc.pooled"
"""The key of the model's properties that says that a call is worth several threads."""

SPINNING = "spinning"
"""Its value where the threads wait for each other within a call by spinning; with any other they
sleep.
"""

DISABLED = ("NoopElimination", "QDQS8ToU8Transformer", "WeightBiasQuantization")
"""Optimizers that ONNX Runtime must not use: this one reads a constant float64 as a float32, so
that it drops `x + 1e-300` and `x * (1 + 1e-9)`.
"""

RUNTIME = "onnxruntime"
"""The distribution that runs graphs."""
