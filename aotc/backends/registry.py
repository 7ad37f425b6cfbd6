"""Finds backends by the Python entry-point group `aotc.backends`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from aotc.backends.protocol import Backend
from aotc.errors import CompileError
from aotc_runtime.errors import Finding

GROUP = "aotc.backends"

HINTS = {
    "rocm": "compiling for AMD GPUs needs a machine with ROCm, to whose libraries XLA's plugin for "
    "them (jax-rocm7-pjrt) links; add a backend for it there: an entry point of aotc.backends",
}


def backend_for(platform: str) -> Backend:
    """The backend of a platform. Raises CompileError (AOTC-E909) if none is installed."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if platform not in found:
        raise CompileError(
            Finding(
                code="AOTC-E909",
                where=f"platform {platform}",
                expected="a backend for one of: " + ", ".join(sorted(found)),
                found="none installed for this platform",
                hint=HINTS.get(platform, "install the package with its backend"),
            )
        )
    return cast(Backend, found[platform].load()())
