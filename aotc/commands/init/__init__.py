"""A first build manifest for a function: what is asked, what was seen, what is written."""
