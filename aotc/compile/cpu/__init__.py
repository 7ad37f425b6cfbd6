"""Processors as a kind of targets; `aotc.compile.xla` compiles for them."""
