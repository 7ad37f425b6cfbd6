"""Names within executables for OpenVINO, for the compiler and the engine."""

ENGINE = "openvino"
"""The engine, and the platform of processors that it runs on."""

DEVICE = "CPU"
"""OpenVINO's word for the processor."""

RUNTIME = "openvino"
"""The distribution that runs graphs."""

POOLED, SINGLE = b"aotc-openvino-pooled\n", b"aotc-openvino-single\n"
"""Prefixes of executables, by whether calls are worth several threads. The graph's
length follows as 8 bytes, the last one first, then the graph, then its constants.
"""
