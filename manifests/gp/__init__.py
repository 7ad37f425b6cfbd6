"""Gaussian-process regression: no weights, but linear algebra and control flow."""
