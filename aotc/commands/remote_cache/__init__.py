"""A cache of builds that hosts share: HTTP, and what fsspec reaches."""
