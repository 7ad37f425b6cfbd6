"""A program whose build writes some hundred kB: enough to fill a small disk in each stage."""

PROGRAM = "def f(x):\n    return x + 1\n"
MANIFEST = """
schema = 1
name = "tiny"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[entry_points.f]
function = "tiny:f"
inputs.x = { shape = [40000], dtype = "float32" }
fixtures.seed = 0
"""
