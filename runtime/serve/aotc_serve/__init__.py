"""Fetch bundles from OCI registries and serve them over HTTP, gRPC and Ray."""
