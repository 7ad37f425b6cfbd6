"""Weights of products in 8 or 4 bits: their numbers, and the modules that take them."""
