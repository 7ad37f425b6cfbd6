"""Build manifests and target files in TOML, read with pydantic."""
