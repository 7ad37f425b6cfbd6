"""Compiling for the engine OpenVINO."""
