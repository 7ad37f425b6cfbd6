"""Keys in a PKCS#11 token, a signer of the entry-point group `aotc.signers`."""
