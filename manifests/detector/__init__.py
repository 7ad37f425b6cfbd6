"""A small object detector for images of any height and width."""
