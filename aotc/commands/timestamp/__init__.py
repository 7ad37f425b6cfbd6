"""Timestamps of signatures by an RFC 3161 authority, for `aotc sign --timestamp`."""
