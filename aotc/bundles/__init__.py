"""What is done with finished bundles: signing, merging, certifying, and judging by a policy."""
