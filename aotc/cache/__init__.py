"""What builds have made before, by the digest of everything that it depends on."""
