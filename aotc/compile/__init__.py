"""Backends: compilers behind one protocol. Built in are XLA for CPUs, NVIDIA GPUs and TPUs."""
