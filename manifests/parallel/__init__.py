"""A transformer block whose batch, heads and hidden units are spread over a mesh of devices."""
