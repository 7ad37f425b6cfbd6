"""The toolchain: builds, signs, verifies and inspects ahead-of-time compiled bundles."""
