"""A cache of builds that hosts share: over HTTP, in an OCI registry or in a folder."""
