"""Removing every check in turn: `make mutate`."""
