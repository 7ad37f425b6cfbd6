"""IREE as an engine: the processor, in this process."""

from aotc_runtime.engines.iree.iree_device import IreeDevice
from aotc_runtime.engines.iree.iree_names import DRIVERS, IREE, RUNTIME
from aotc_runtime.engines.processor_engine import Library, ProcessorEngine


def _device(threads: int) -> IreeDevice:
    from iree._runtime_libs import _runtime

    return IreeDevice(_runtime, threads)


_library = Library("iree", RUNTIME, "iree", "IREE's runtime")
_engine = ProcessorEngine(IREE, _library, DRIVERS, _device)
platforms = _engine.platforms
facts, machine, start = _engine.facts, _engine.machine, _engine.start
