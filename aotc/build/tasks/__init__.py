"""Tasks of a build: run beside each other, counted, stopped, and found again in a cache."""
