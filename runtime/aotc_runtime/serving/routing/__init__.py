"""Calls whose sizes no profile has: padded, split, or served by what was compiled for them.

Imported when the first such call comes, or at load for an entry point that has a policy for them.
"""
