"""OpenVINO as an engine: one executable is one graph in its own format."""
