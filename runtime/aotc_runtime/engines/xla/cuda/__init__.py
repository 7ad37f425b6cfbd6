"""NVIDIA GPUs: what their driver says of them, and XLA's client of them."""
