"""ONNX Runtime as an engine: the processor, in this process."""

from aotc_runtime.engines.onnxruntime.onnxruntime_device import OnnxDevice
from aotc_runtime.engines.onnxruntime.onnxruntime_names import ENGINE, PROVIDER, RUNTIME
from aotc_runtime.engines.processor_engine import Library, ProcessorEngine


def _device(threads: int) -> OnnxDevice:
    import onnxruntime

    return OnnxDevice(onnxruntime, threads)


_library = Library("onnxruntime", RUNTIME, RUNTIME, "ONNX Runtime")
_engine = ProcessorEngine(ENGINE, _library, (PROVIDER,), _device)
platforms = _engine.platforms
facts, machine, start = _engine.facts, _engine.machine, _engine.start
