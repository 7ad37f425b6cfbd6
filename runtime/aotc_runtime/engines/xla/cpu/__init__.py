"""Processors: what XLA:CPU alone can do, calls in place and compiling."""
