"""OpenVINO as an engine: the processor, in this process."""

import sys
from typing import Any

from aotc_runtime.engines.openvino.openvino_device import OpenvinoDevice
from aotc_runtime.engines.openvino.openvino_names import DEVICE, ENGINE, RUNTIME
from aotc_runtime.engines.processor_engine import Library, ProcessorEngine

CONVERTER = "openvino.tools.ovc"


def package() -> Any:
    """Import openvino without its model conversion, which sends telemetry by a fork.

    Raises ImportError.
    """
    sys.modules.setdefault(CONVERTER, None)  # type: ignore[arg-type]
    try:
        import openvino
    finally:
        if sys.modules.get(CONVERTER, sys) is None:
            del sys.modules[CONVERTER]
    return openvino


def _device(threads: int) -> OpenvinoDevice:
    return OpenvinoDevice(package(), threads)


_library = Library("openvino", RUNTIME, "openvino", "OpenVINO")
_engine = ProcessorEngine(ENGINE, _library, (DEVICE,), _device)
platforms = _engine.platforms
facts, machine, start = _engine.facts, _engine.machine, _engine.start
