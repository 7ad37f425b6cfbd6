"""A cache of builds that hosts share: HTTP, OCI registries, and what fsspec reaches."""
