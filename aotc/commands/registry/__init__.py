"""Bundles to and from OCI registries, and the store in between."""
