"""Differences of two bundles, and whether they pass."""
