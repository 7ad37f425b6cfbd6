"""What people write: build manifests and target files, in TOML, read with pydantic."""
