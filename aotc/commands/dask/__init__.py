"""Executables that are compiled elsewhere: through any executor of `concurrent.futures`."""
