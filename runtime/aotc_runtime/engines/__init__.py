"""Engines: the libraries that run executables. `protocol` says what the runtime needs of one,
`registry` finds them, `facts` asks them about this host; `xla` is the one that comes along.
"""
