"""Measuring a bundle as a server would run it."""
