"""NVIDIA GPUs through the CUDA plugin of jaxlib, on machines that have none."""
