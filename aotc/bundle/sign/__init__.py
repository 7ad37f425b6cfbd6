"""Keys, signers and attestations: who vouches for a bundle, and for what."""
