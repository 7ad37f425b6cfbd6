"""Which engine runs a target's executables: its platform says it.

XLA's own platforms are cpu, cuda, rocm and tpu. Any other platform is named after the engine that
runs it: `NAME` or `NAME-DEVICES`, such as "iree-vulkan" for devices that the engine "iree" knows as
vulkan.
"""

from __future__ import annotations

XLA = "xla"
XLA_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def engine_name(platform: str) -> str:
    """The engine of a platform, under which an entry point of `aotc_runtime.engines` names it."""
    return XLA if platform in XLA_PLATFORMS else platform.partition("-")[0]
