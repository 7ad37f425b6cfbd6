"""Attestations that other tools made, put into a bundle."""
