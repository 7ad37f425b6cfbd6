"""Finds where two JSON documents or two modules differ."""
