"""Show and tidy up the build cache."""
