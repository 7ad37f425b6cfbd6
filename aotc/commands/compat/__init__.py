"""On which hosts of a fleet a bundle runs."""
