"""Bundles that exist, and the policies that accept them: signed, joined, certified and judged."""
