"""The processor as OpenVINO runs on it.

An executable is a graph, from which OpenVINO makes code for this processor with its weights, before
a bundle is ready. Private names of openvino 2026.4.1: `openvino._pyopenvino`, the library that the
package wraps, whose own requests take tens of microseconds more for each call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines import graph_names
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Stored
from aotc_runtime.engines.openvino import openvino_names, openvino_reader
from aotc_runtime.engines.openvino.openvino_compilation import compile_model, last_line, read_model
from aotc_runtime.engines.processor_engine import ProcessorDevice, pack

ELEMENTS = {
    "bool": ("BOOL", "boolean"),
    "float32": ("FP32", "f32"),
    "int32": ("I32", "i32"),
    "int8": ("I8", "i8"),
    "uint8": ("U8", "u8"),
}
"""By the name of a numpy dtype: the word in graphs, and the name in the library."""

_NARROW = ("int4", "uint4")


class OpenvinoError(Exception):
    """A run that failed, with OpenVINO's message."""


class Held(NamedTuple):
    """An array with OpenVINO's view of it, which does not keep it alive."""

    array: Array
    tensor: Any


class _WritableView:
    """An array's memory under the flag that it may be written."""

    def __init__(self, array: Array) -> None:
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


class Compiled:
    """A graph with its weights, to which OpenVINO refers without owning them.

    A request runs one call at a time, so there are as many as calls have run at once; all of them
    share the code.
    """

    def __init__(self, compiled: Any, kept: object) -> None:
        self._compiled, self._kept = compiled, kept
        self._idle = [self._compiled.create_infer_request()]

    def run(self, inputs: dict[int, Any], outputs: Sequence[Held]) -> None:
        """Run with tensors by their place among the graph's inputs. Raises OpenvinoError."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            for place, held in enumerate(outputs):
                request.set_output_tensor(place, held.tensor)
            request.infer(inputs, True, False)
        except Exception as error:
            raise OpenvinoError(last_line(error)) from error
        self._idle.append(request)


class OpenvinoExecutable:
    """A verified graph; `needs` has the places of its weights among the arguments."""

    def __init__(self, graph: openvino_reader.Graph, stored: Stored) -> None:
        self.graph, self.where, self.outputs = graph, stored.where, stored.outputs
        self.bound: dict[tuple[int, ...], Compiled] = {}


class OpenvinoDevice(ProcessorDevice):
    """The processor, with openvino as `package`."""

    platform, engine = openvino_names.ENGINE, "OpenVINO"
    error = OpenvinoError

    def __init__(self, package: Any, threads: int) -> None:
        super().__init__(threads)
        self._library = package._pyopenvino
        self._core = self._library.Core()
        self._types = {
            dtype: getattr(self._library.Type, name) for dtype, (_, name) in ELEMENTS.items()
        }
        self.watch_forks()

    def load(self, stored: Stored) -> OpenvinoExecutable:
        """Read a graph."""
        return _read(stored)

    def share(self, array: Array, aval: Aval) -> Held:
        """Return a weight in place; one of 4 bits as its bytes."""
        return self._hold(array.view(np.uint8) if aval.dtype.name in _NARROW else array)

    def put(self, array: Array, aval: Aval) -> Held:
        """Return a copy of an array of exactly its aval."""
        # By shape too: a number may come as a list of one.
        return self._hold(np.array(array, order="C").reshape(aval.shape))

    def execute(self, executable: OpenvinoExecutable, arguments: list[Held]) -> list[Held]:
        """Run on the calling thread and OpenVINO's pool. Raises OpenvinoError."""
        graph = executable.graph
        compiled = self.bound(executable, {i: arguments[i] for i in graph.weights})
        made = [self._empty(aval) for aval in executable.outputs]
        inputs = {at: arguments[place].tensor for at, place in enumerate(graph.given)}
        compiled.run(inputs, made)
        return made

    def direct(
        self,
        executable: OpenvinoExecutable,
        weights: Sequence[Held],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """Return a function of the input leaves."""
        run = self.bound(executable, dict(enumerate(weights))).run
        given = [(at, place - len(weights)) for at, place in enumerate(executable.graph.given)]
        empty, tensor = self._empty, self._tensor

        def call(*leaves: Any) -> list[Buffer]:
            arrays = [leaf.array if type(leaf) is Held else pack(leaf) for leaf in leaves]
            made = [empty(aval) for aval in outputs]
            run({at: tensor(arrays[place]) for at, place in given}, made)
            return made

        return call

    def _hold(self, array: Array) -> Held:
        return Held(array, self._tensor(array))

    def _tensor(self, array: Array) -> Any:
        """Return OpenVINO's view of an array.

        It only reads inputs and constants, but its bindings require a writable array.
        """
        if not array.flags.writeable:
            array = np.asarray(_WritableView(array))
        return self._library.Tensor(array, shared_memory=True)

    def _empty(self, aval: Aval) -> Held:
        return self._hold(np.empty(aval.shape, aval.dtype))

    def bind(self, executable: OpenvinoExecutable, weights: Mapping[int, Held]) -> Compiled:
        """Return weights become constants of the graph, in place."""
        graph = executable.graph
        threads = self.threads if graph.pooled else 1
        tensors = {place: weight.tensor for place, weight in weights.items()}
        try:
            model = read_model(self._library, self._core, graph, tensors)
            taken = [each.get_friendly_name() for each in model.get_parameters()]
            if taken != [graph_names.input_name(place) for place in graph.given]:
                raise _not_loaded(executable.where, f"a graph that takes {taken}"[:200])
            compiled = compile_model(self._library, self._core, model, threads)
        except AotcError:
            raise
        except Exception as error:
            raise _not_loaded(executable.where, last_line(error)) from error
        return Compiled(compiled, list(weights.values()))

    def viewer(self, aval: Aval) -> Callable[[Held], Array]:
        """Return a function that gives the arrays of buffers."""
        return _read_only


def _read_only(held: Held) -> Array:
    held.array.setflags(write=False)
    return held.array


def _read(stored: Stored) -> OpenvinoExecutable:
    try:
        graph = openvino_reader.read(memoryview(stored.blob.data))
    except openvino_reader.GraphError as error:
        raise _not_loaded(stored.where, str(error)) from error
    expected = tuple(
        (aval.shape, ELEMENTS.get(aval.dtype.name, ("",))[0]) for aval in stored.outputs
    )
    if graph.results != expected:
        # Results are read by the shapes of the manifest.
        raise _not_loaded(stored.where, f"a graph that gives {graph.results}"[:200])
    return OpenvinoExecutable(graph, stored)


def _not_loaded(where: str, found: str) -> AotcError:
    return refusal("AOTC-E753", where, found)
