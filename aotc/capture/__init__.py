"""Captures a user's function: import, trace, reject what cannot be shipped.

The only package that runs the user's code, in a child process of the build, since it imports jax
and whatever the program imports.
"""
