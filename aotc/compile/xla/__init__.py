"""XLA through jaxlib: edited CPU topologies, one child process per executable, canonical bytes."""
