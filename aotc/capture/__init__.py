"""From a user's function to a `CapturedEntryPoint`: import, trace, refuse what cannot be shipped.

The only room that runs the user's code. Runs in a child process of the build, because it imports
jax and whatever the program imports.
"""
