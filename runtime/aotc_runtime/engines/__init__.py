"""Engines: the libraries that run executables.

`engine_protocol` and `engine_device` state what the runtime needs of one, `engine_registry` finds
them and asks them about this host. `xla` comes with this distribution.
"""
