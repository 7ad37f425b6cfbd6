"""Compilers behind one protocol; XLA is the built-in one."""
