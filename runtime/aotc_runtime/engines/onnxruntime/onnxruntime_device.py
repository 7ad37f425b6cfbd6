"""The processor as ONNX Runtime runs on it.

An executable is an ONNX graph, and becomes a session with its weights. Private names of onnxruntime
1.32.0: `onnxruntime.capi.onnxruntime_pybind11_state`, the library that the package wraps, whose own
sessions take some microseconds more for each call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines import graph_names
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Stored
from aotc_runtime.engines.onnxruntime import onnx_reader, onnxruntime_names
from aotc_runtime.engines.processor_engine import ProcessorDevice, Weight, is_small, pack

ELEMENTS = {
    "bool": 9,
    "bfloat16": 4,
    "float16": 10,
    "float32": 1,
    "float64": 11,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "int8": 3,
    "uint16": 4,
    "uint32": 12,
    "uint64": 13,
    "uint8": 2,
}
"""ONNX's number of a type, by the name of a numpy dtype. A bfloat16 passes as its bits, since
numpy's arrays of it are nobody else's.
"""

_SILENT = 4
"""ONNX Runtime's severity above which it logs: what it raises is enough."""

_BITS = {"bfloat16": np.dtype(np.uint16), "int4": np.dtype(np.uint8), "uint4": np.dtype(np.uint8)}


class OnnxError(Exception):
    """A run that failed, with ONNX Runtime's message."""


class Bound(Struct, frozen=True):
    """A session of a graph with its weights, which ONNX Runtime refers to without owning them."""

    session: Any
    weights: Sequence[Any]


class OnnxExecutable:
    """A verified graph.

    `needs` are indices of its weights among the arguments; `pooled` and `spinning` are the graph's.
    """

    def __init__(self, model: bytes, graph: onnx_reader.Graph, where: str) -> None:
        self.model, self.where = model, where
        self.needs, self.pooled, self.spinning = graph.weights, graph.pooled, graph.spinning
        self.results = [graph_names.result(place) for place in range(len(graph.results))]
        self.bound: dict[tuple[int, ...], Bound] = {}


class OnnxDevice(ProcessorDevice):
    """The processor, with onnxruntime as `package`."""

    platform, engine = onnxruntime_names.ENGINE, "ONNX Runtime"
    error = OnnxError

    def __init__(self, package: Any, threads: int) -> None:
        super().__init__(threads)
        self._package = package
        self._library = package.capi.onnxruntime_pybind11_state
        self._place = package.OrtDevice.make("cpu", 0)._get_c_device()
        # Without these, each call makes its own.
        self._run_options = self._library.RunOptions()
        package.set_default_logger_severity(_SILENT)
        package.disable_telemetry_events()
        self.watch_forks()

    def load(self, stored: Stored) -> OnnxExecutable:
        """Read a graph."""
        return _read(stored)

    def share(self, array: Array, aval: Aval) -> Weight:
        """Return a weight in place."""
        return Weight(_as_stored(array))

    def put(self, array: Array, aval: Aval) -> Buffer:
        """Return a copy of an array of exactly its aval."""
        # By shape too: a number may come as a list of one.
        copied = np.array(_as_stored(array), order="C").reshape(aval.shape)
        # What DLPack hands over keeps its memory, as `ortvalue_from_numpy` does not.
        return self._library.OrtValue.from_dlpack(copied.__dlpack__())

    def execute(self, executable: OnnxExecutable, arguments: list[Any]) -> list[Buffer]:
        """Run on the calling thread and ONNX Runtime's pool. Raises OnnxError."""
        weights = {i: each for i, each in enumerate(arguments) if type(each) is Weight}
        bound = self.bound(executable, weights)
        feeds = {
            graph_names.input_name(place): each
            for place, each in enumerate(arguments)
            if type(each) is not Weight
        }
        try:
            made = bound.session.run_with_ort_values(feeds, executable.results, self._run_options)
        except Exception as error:
            raise OnnxError(first_line(error)) from error
        return [made[number] for number in range(len(executable.results))]

    def direct(
        self,
        executable: OnnxExecutable,
        weights: Sequence[Weight],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """Return a function of the input leaves."""
        bound = self.bound(executable, dict(enumerate(weights)))
        call, value, place = bound.session.run_with_ort_values, self._library.OrtValue, self._place
        wrap, results = value.ortvalue_from_numpy, executable.results
        run_options = self._run_options
        # Going through what a call gives as an iterator takes longer than a small call.
        numbers = range(len(results))
        keys = [graph_names.input_name(len(weights) + number) for number in range(len(inputs))]
        is_single = len(keys) == 1
        viewed = [(n, each.dtype) for n, each in enumerate(outputs) if each.dtype.name in _BITS]
        bits = any(each.dtype.name in _BITS for each in inputs)
        shown: Callable[[Array], Array] = (lambda leaf: pack(_as_stored(leaf))) if bits else pack

        def run(*leaves: Any) -> list[Buffer]:
            # A value refers to its array without keeping it.
            arrays = [leaf if type(leaf) is value else shown(leaf) for leaf in leaves]
            feeds = {
                key: each if type(each) is value else wrap(each, place)
                for key, each in zip(keys, arrays, strict=True)
            }
            try:
                made = call(feeds, results, run_options)
            except Exception as error:
                raise OnnxError(first_line(error)) from error
            return [made[number] for number in numbers]

        def passing(*arrays: Array) -> list[Array]:
            # Of any layout: ONNX Runtime packs arrays by itself. Going through one takes 3 us.
            feeds = {keys[0]: arrays[0]} if is_single else dict(zip(keys, arrays, strict=True))
            try:
                made: list[Array] = bound.session.run(results, feeds, run_options)
            except Exception as error:
                raise OnnxError(first_line(error)) from error
            for number, dtype in viewed:
                made[number] = made[number].view(dtype)
            for each in made:
                each.setflags(False)  # type: ignore[call-arg]  # by its name it takes twice as long
            return made

        vars(run)["bound"] = bound  # for as long as it may be called
        on_host = None
        # Half the time of a small call is making values and looking at them.
        if is_small(inputs) and is_small(outputs):
            taken = dict(zip(keys, inputs, strict=True))
            given = dict(zip(results, outputs, strict=True))
            on_host = self._copying(bound.session, taken, given)
        elif not bits:
            on_host = passing
        vars(run)["on_host"] = on_host
        return run

    def _copying(
        self, session: Any, inputs: Mapping[str, Aval], outputs: Mapping[str, Aval]
    ) -> Callable[..., list[Array]]:
        """Return a function of arrays with inputs and results in reused memory.

        Each of the calls that run at once has its own.
        """
        wrap, place = self._library.OrtValue.ortvalue_from_numpy, self._place
        run, run_options = session.run_with_iobinding, self._run_options
        is_single = len(inputs) == 1

        def room() -> tuple[Any, list[Array], list[Callable[[], Array]]]:
            binding = self._library.SessionIOBinding(session)
            taken, given = (
                {name: np.zeros(aval.shape, aval.dtype) for name, aval in avals.items()}
                for avals in (inputs, outputs)
            )
            for name, array in taken.items():
                binding.bind_ortvalue_input(name, wrap(_as_stored(array), place))
            for name, array in given.items():
                binding.bind_ortvalue_output(name, wrap(_as_stored(array), place))
            return binding, [*taken.values()], [array.copy for array in given.values()]

        idle = [room()]

        def copying(*leaves: Array) -> list[Array]:
            try:
                mine = idle.pop()
            except IndexError:
                mine = room()
            binding, taken, copies = mine
            if is_single:  # going through one takes a twentieth of a small call
                taken[0][...] = leaves[0]
            else:
                for array, leaf in zip(taken, leaves, strict=True):
                    array[...] = leaf
            try:
                run(binding, run_options)
            except Exception as error:
                # Its memory is not used again.
                raise OnnxError(first_line(error)) from error
            made = [copy() for copy in copies]
            idle.append(mine)
            for each in made:
                each.setflags(False)  # type: ignore[call-arg]  # by its name it takes twice as long
            return made

        return copying

    def bind(self, executable: OnnxExecutable, weights: Mapping[int, Weight]) -> Bound:
        """Bind weights in place, as external and as given initializers.

        ONNX Runtime copies weights that are not named for both: for constant folding, and for the
        run.
        """
        options = self._package.SessionOptions()
        options.log_severity_level = _SILENT
        options.add_session_config_entry("session.load_model_format", "ONNX")
        options.intra_op_num_threads = self.threads if executable.pooled else 1
        # Threads that wait for the next call by spinning take the processor from other sessions.
        spinning = "1" if executable.spinning else "0"
        options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
        options.add_session_config_entry("session.force_spinning_stop", "1")
        # By default, products with dequantized weights round their other factor to 8 bits.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        lacking = [place for place in executable.needs if place not in weights]
        if lacking:
            raise _not_loaded(executable.where, f"a graph with a weight {lacking[0]} of its own")
        outside = [graph_names.weight(place) for place in executable.needs]
        make = self._package.OrtValue.ortvalue_from_numpy
        values = [make(weights[place].array) for place in executable.needs]
        try:
            options.add_external_initializers(outside, values)
            for name, value in zip(outside, values, strict=True):
                options.add_initializer(name, value)
            # The package's own class prints what it raises.
            session = self._library.InferenceSession(options, executable.model, False, False)
            session.initialize_session(
                [onnxruntime_names.PROVIDER], [{}], set(onnxruntime_names.DISABLED)
            )
        except Exception as error:
            raise _not_loaded(executable.where, first_line(error)) from error
        return Bound(session, values)

    def viewer(self, aval: Aval) -> Callable[[Buffer], Array]:
        """Return a function that shows buffers of an aval as arrays."""
        dtype = aval.dtype if aval.dtype.name in _BITS else None

        def shown(buffer: Buffer) -> Array:
            array: Array = buffer.numpy()
            if dtype is not None:
                array = array.view(dtype)
            array.setflags(write=False)
            return array

        return shown


def _as_stored(array: Array) -> Array:
    bits = _BITS.get(array.dtype.name)
    return array if bits is None else array.view(bits)


def _read(stored: Stored) -> OnnxExecutable:
    try:
        graph = onnx_reader.read(memoryview(stored.blob.data))
    except onnx_reader.GraphError as error:
        raise _not_loaded(stored.where, str(error)) from error
    expected = tuple((aval.shape, ELEMENTS.get(aval.dtype.name, 0)) for aval in stored.outputs)
    if graph.results != expected:
        # Results are read by the shapes of the manifest.
        raise _not_loaded(stored.where, f"a graph that gives {graph.results}"[:200])
    return OnnxExecutable(bytes(stored.blob.data), graph, stored.where)


def _not_loaded(where: str, found: str) -> AotcError:
    return refusal("AOTC-E753", where, found)
