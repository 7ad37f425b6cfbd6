"""A decoder-only transformer over bytes, with a key-value cache."""
