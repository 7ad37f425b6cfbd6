"""The thin loader of aotc bundles: verify, load, call. Never imports jax, never compiles."""
