"""What of ONNX Runtime this host has, without importing it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from aotc_runtime.engines.onnxruntime.names import ENGINE, PROVIDER, RUNTIME
from aotc_runtime.schema.facts import Accelerator
from aotc_runtime.system import host

_METADATA = (f"{RUNTIME}-", ".dist-info")


def installed() -> str:
    """The version of the installed runtime; "" without one.

    From the name of the folder that an installer leaves beside the package: importlib.metadata
    takes 10 ms to say the same.
    """
    try:
        spec = find_spec(RUNTIME)
    except ImportError:  # of a finder that refuses it
        return ""
    begin, end = _METADATA
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for found in Path(place).parent.glob(f"{begin}*{end}"):
            return found.name.removeprefix(begin).removesuffix(end)
    return ""


def detect() -> Accelerator:
    """This host's processor, with the host's memory; none where ONNX Runtime is missing."""
    version = installed()
    if not version:
        return Accelerator(platform=ENGINE, devices=0)
    return Accelerator(
        platform=ENGINE,
        devices=1,
        kinds=(PROVIDER,),
        memory_bytes=host.free_memory(),
        plugin=version,
    )
