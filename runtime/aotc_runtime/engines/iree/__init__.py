"""IREE as an engine: one executable is one module of its virtual machine (a `vmfb`)."""
