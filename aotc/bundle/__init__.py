"""Write, sign, read and compare bundles, and edit trust policies."""
