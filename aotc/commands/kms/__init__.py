"""Keys in cloud key management services, signers of the entry-point group `aotc.signers`."""
