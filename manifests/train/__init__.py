"""Training a classifier of handwritten digits, one compiled step at a time."""
