"""A bundle as an application of Ray Serve."""
