"""Load and verify a bundle: `load`, `verify` and the report of `aotc verify`."""
