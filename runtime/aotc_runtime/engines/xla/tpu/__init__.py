"""TPUs: what the system says of them, and XLA's client of them."""
