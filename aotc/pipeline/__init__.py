"""Builds: the pipeline from a build manifest to a written bundle, and the processes it starts."""
