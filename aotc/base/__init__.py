"""Errors, codes, stages, worker processes and temporary files: what every other package stands
on.
"""
