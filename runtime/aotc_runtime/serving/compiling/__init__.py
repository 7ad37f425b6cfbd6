"""Compiling in production: for entry points whose policy says so, where the trust policy allows it.

Imported for such an entry point only.
"""
