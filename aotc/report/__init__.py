"""Reports about builds and bundles: first as JSON-able data, then as text made from it."""
