"""Copying a bundle with some of its targets alone."""
