"""What is done with finished bundles: signing, matching with hosts, and judging by a policy."""
