"""XLA through jaxlib, the engine of the platforms cpu, cuda and tpu.

No other module of the runtime imports jaxlib. `xla_client` is shared by the platforms.
"""
