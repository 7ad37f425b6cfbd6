"""Bundles in OCI registries: what speaks to one, and what is sent and fetched. Nothing that a
registry says is believed: every byte is asked for by its digest, or by a tag that is resolved once.
"""
