"""A bundle as its reviewers read it, and what of two of them is the same."""
