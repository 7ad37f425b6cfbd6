"""Observed shapes, and the profiles that serve them at the least cost."""
