"""Processors as a kind of targets; `aotc.backends.xla` compiles for them."""
