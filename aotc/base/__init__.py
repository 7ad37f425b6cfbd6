"""Errors, codes, stages, worker processes and temporary files, on which every package depends."""
