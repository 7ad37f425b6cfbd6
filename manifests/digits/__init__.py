"""A classifier of 8x8 images of handwritten digits."""
