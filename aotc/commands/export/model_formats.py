"""Formats of exported models: the files of each, and a call in its own runtime.

A call reads the files alone, without the loader's code, so that it checks what was written.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aotc.base.errors import refusal
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc_runtime.base import first_line
from aotc_runtime.engines import graph_names
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.engines.iree import iree_names
from aotc_runtime.engines.onnxruntime import onnxruntime_names
from aotc_runtime.engines.openvino import openvino_compilation, openvino_names
from aotc_runtime.schema.bundle_manifest import Requirements

type Array = np.ndarray[Any, Any]

EMBEDDED_BYTES_MAX = 2**30
"""An ONNX model has more bytes of weights in a file beside it, since protobuf ends at 2 GiB. A
StableHLO module takes no more.
"""

INTERPRETED_MAX = 1e7
"""Operations that StableHLO's interpreter computes in about ten seconds."""

ONNX_FILE, OPENVINO_FILE, IREE_FILE = "model.onnx", "model.xml", "model.vmfb"
STABLEHLO_FILE, WEIGHTS_FILE = "model.mlirbc", "weights.safetensors"

OPENVINO_OPTIONS = {
    name: openvino_compilation.PROPERTIES[name]
    for name in ("INFERENCE_PRECISION_HINT", "EXECUTION_MODE_HINT")
}
"""The loader's properties that decide on results."""


class NotRunError(Exception):
    """Reason why a runtime cannot call a model here."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model.

    Attributes:
        place: of an input, its place among the executable's arguments; of an output, its number.
        name: name in the model, where models of the format have names.
        path: path of the leaf in the entry point.
        dtype: the manifest's word.
        shape: sizes.
    """

    place: int
    name: str
    path: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """An executable with its weights, by their places among its arguments.

    `operations` is the number of floating-point operations of a call.
    """

    executable: bytes
    module: bytes
    requires: Requirements
    weights: Mapping[int, Array]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operations: float

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(array.nbytes for array in self.weights.values())


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format.

    Attributes:
        platform: of executables that have it; None where every executable's module does.
        runtime: distribution that runs it.
        write: writes the files of a model into a folder. Raises ImportError.
        call: calls the model in a folder with its inputs. Raises ImportError, NotRunError.
        options: of the runtime, with which the results are the bundle's.
        passed: types of tensors of the model, by those of the entry point that differ.
    """

    platform: str | None
    runtime: str
    write: Callable[[Model, Path], None]
    call: Callable[[Model, Path, Sequence[Array]], list[Array]]
    options: Mapping[str, object]
    passed: Mapping[str, str] = field(default_factory=dict)


def _bits(array: Array) -> Array:
    """Return an array of a type that numpy lacks as unsigned numbers of its bits."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _write_onnx(model: Model, folder: Path) -> None:
    import onnx

    made = onnx.load_model_from_string(model.executable)
    for initializer in made.graph.initializer:
        if initializer.data_location == onnx.TensorProto.EXTERNAL:
            place = int(initializer.name.removeprefix(graph_names.weight(0)[:-1]))
            del initializer.external_data[:]
            initializer.data_location = onnx.TensorProto.DEFAULT
            initializer.raw_data = _bits(model.weights[place]).tobytes()
    names = {graph_names.input_name(each.place): each.name for each in model.inputs}
    names |= {graph_names.result(each.place): each.name for each in model.outputs}
    copy = onnx.helper.make_node
    for value in made.graph.input:
        inner, value.name = value.name, names[value.name]
        made.graph.node.insert(0, copy("Identity", [value.name], [inner]))
    for value in made.graph.output:
        inner, value.name = value.name, names[value.name]
        made.graph.node.append(copy("Identity", [inner], [value.name]))
    onnx.save_model(
        made,
        folder / ONNX_FILE,
        save_as_external_data=model.weights_bytes > EMBEDDED_BYTES_MAX,
        location=f"{ONNX_FILE}.data",
    )


def _call_onnx(model: Model, folder: Path, arrays: Sequence[Array]) -> list[Array]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(folder / ONNX_FILE),
        providers=[onnxruntime_names.PROVIDER],
        disabled_optimizers=list(onnxruntime_names.DISABLED),
    )
    feeds = {each.name: _bits(array) for each, array in zip(model.inputs, arrays, strict=True)}
    return list(session.run([each.name for each in model.outputs], feeds))


def _write_openvino(model: Model, folder: Path) -> None:
    from aotc_runtime.engines.openvino import openvino_engine, openvino_reader

    package = openvino_engine.package()
    library, graph = package._pyopenvino, openvino_reader.read(memoryview(model.executable))
    core = library.Core()
    weights = {
        place: library.Tensor(_bits(model.weights[place]), shared_memory=False)
        for place in graph.weights
    }
    made = openvino_compilation.read_model(library, core, graph, weights)
    names = {graph_names.input_name(each.place): each.name for each in model.inputs}
    for parameter in made.get_parameters():
        parameter.output(0).get_tensor().set_names({names[parameter.get_friendly_name()]})
    for result, output in zip(made.get_results(), model.outputs, strict=True):
        result.output(0).get_tensor().set_names({output.name})
    # Replaces what depends on constants alone, which OpenVINO may overwrite, by its result.
    openvino_compilation.compile_model(library, core, made, 1)
    package.serialize(package.Model(made), folder / OPENVINO_FILE)


def _call_openvino(model: Model, folder: Path, arrays: Sequence[Array]) -> list[Array]:
    from aotc_runtime.engines.openvino import openvino_engine

    core, path = openvino_engine.package().Core(), str(folder / OPENVINO_FILE)
    compiled = core.compile_model(path, openvino_names.DEVICE, OPENVINO_OPTIONS)
    # OpenVINO refers to arrays only if they are writable, even to read them.
    feeds = {e.name: np.array(array) for e, array in zip(model.inputs, arrays, strict=True)}
    made = compiled(feeds)
    return [np.array(made[each.name]) for each in model.outputs]


def _write_iree(model: Model, folder: Path) -> None:
    (folder / IREE_FILE).write_bytes(model.executable)
    weights = {str(place): array for place, array in model.weights.items()}
    (folder / WEIGHTS_FILE).write_bytes(write_tensors(weights, where=WEIGHTS_FILE))


def _call_iree(model: Model, folder: Path, arrays: Sequence[Array]) -> list[Array]:
    from iree import runtime

    host, needed = detect_all(), model.requires
    if os.uname().machine != needed.architecture or set(needed.isa) - host.isa:
        raise NotRunError("machine code for another processor")
    if any(array.dtype.kind == "V" for array in arrays):
        raise NotRunError("inputs of a type that numpy does not have")
    config = runtime.Config(iree_names.LOCAL_SYNC)
    index = runtime.ParameterIndex()
    index.load(str(folder / WEIGHTS_FILE))
    parameters = runtime.create_io_parameters_module(
        config.vm_instance, index.create_provider(scope=iree_names.SCOPE)
    )
    module = runtime.VmModule.mmap(config.vm_instance, str(folder / IREE_FILE))
    context = runtime.SystemContext([parameters, module], config)
    made = context.modules[module.name][iree_names.FUNCTION](*arrays)
    return [each.to_host() for each in (made if isinstance(made, tuple | list) else [made])]


def _write_stablehlo(model: Model, folder: Path) -> None:
    from jaxlib.mlir import ir

    from aotc.capture.portable_stablehlo import portable
    from aotc.compile.mlir.mlir_context import embed, read_artifact

    if model.weights_bytes > EMBEDDED_BYTES_MAX:
        found, expected = f"{model.weights_bytes} bytes", f"at most {EMBEDDED_BYTES_MAX} bytes"
        raise refusal("AOTC-E059", "weights", found, cause="too-large", expected=expected)
    module = read_artifact(model.module)
    with module.context:
        main = ir.SymbolTable(module.operation)["main"]
    given = len(main.regions[0].blocks[0].arguments)
    count = len(model.inputs) + len(model.weights)
    if given != count:
        expected, cause = f"{count}", "tuned-weights"
        raise refusal("AOTC-E059", "module", f"{given} parameters", cause=cause, expected=expected)
    embed(module, model.weights)
    (folder / STABLEHLO_FILE).write_bytes(portable(module).artifact)


def _call_stablehlo(model: Model, folder: Path, arrays: Sequence[Array]) -> list[Array]:
    from aotc.capture.float64_module import NotInterpretedError, interpret

    if model.operations > INTERPRETED_MAX:
        raise NotRunError(f"more than {INTERPRETED_MAX:.0e} operations for the interpreter")
    try:
        return interpret((folder / STABLEHLO_FILE).read_bytes(), arrays)
    except NotInterpretedError as error:
        raise NotRunError(first_line(error)) from error


FORMATS = {
    "onnx": ModelFormat(
        onnxruntime_names.ENGINE,
        onnxruntime_names.RUNTIME,
        _write_onnx,
        _call_onnx,
        {"disabled_optimizers": list(onnxruntime_names.DISABLED)},
        {"bfloat16": "uint16"},
    ),
    "openvino": ModelFormat(
        openvino_names.ENGINE,
        openvino_names.RUNTIME,
        _write_openvino,
        _call_openvino,
        OPENVINO_OPTIONS,
    ),
    "iree": ModelFormat(iree_names.IREE, iree_names.RUNTIME, _write_iree, _call_iree, {}),
    "stablehlo": ModelFormat(None, "jaxlib", _write_stablehlo, _call_stablehlo, {}),
}
"""By the value of `--as`."""
