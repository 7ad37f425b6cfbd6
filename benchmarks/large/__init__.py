"""A program with 2 GiB of weights, to measure verification with."""
