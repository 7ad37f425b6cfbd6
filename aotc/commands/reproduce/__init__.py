"""Building again what a bundle was built from, and comparing."""
