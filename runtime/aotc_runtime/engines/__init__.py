"""Engines: the libraries that run executables. `protocol` and `device` say what the
runtime needs of one, `registry` finds them and asks them about this host; `xla` is the one that
comes along.
"""
