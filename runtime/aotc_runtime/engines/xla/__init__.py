"""XLA through jaxlib, the engine of the platforms cpu, cuda and tpu; nothing else of the runtime
imports jaxlib. `client` is what they share, and each platform has a folder.
"""
