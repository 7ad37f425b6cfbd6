"""XLA through jaxlib, the engine of the platforms cpu, cuda and tpu; nothing else of the runtime
imports jaxlib. `xla_client` is what they share.
"""
