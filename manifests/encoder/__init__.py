"""A small text encoder whose texts have any length."""
