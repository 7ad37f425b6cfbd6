"""Errors, codes, limits, digests and canonical JSON."""
