"""Tampered bundles: none of them loads, each is refused with the right code."""
