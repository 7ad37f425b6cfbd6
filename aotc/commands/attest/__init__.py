"""Signing the files of a bundle for other tools, as OpenSSF Model Signing does."""
