"""Watching what the user's code reads, to know later whether a cached result is still good."""
