"""Bytes to types and back, without files: tar, OCI, DSSE, in-toto, safetensors."""
