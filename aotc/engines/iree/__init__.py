"""IREE as a compiler of processors' code: x86-64 and, from any host, aarch64."""
