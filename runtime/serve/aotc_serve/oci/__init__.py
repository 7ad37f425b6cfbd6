"""Bundles in OCI registries.

No answer of a registry is trusted: everything is requested by digest, or by a tag that is resolved
once.
"""
