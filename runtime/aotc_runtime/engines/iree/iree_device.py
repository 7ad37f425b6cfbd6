"""The processor as IREE runs it: an executable is a module of IREE's virtual machine.

Private names of iree-base-runtime 3.13.0: `iree._runtime_libs._runtime`, the library that the
package `iree.runtime` wraps; the wrapper takes 60 ms to import and 10 us for each call.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines.device_features import align
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Stored
from aotc_runtime.engines.iree import iree_names
from aotc_runtime.engines.iree.iree_archive import require_module
from aotc_runtime.engines.processor_engine import ProcessorDevice, Weight, is_small


class Element(NamedTuple):
    """An element type.

    Attributes:
        word: MLIR's name, without signs.
        number: IREE's (`iree_hal_element_types_t`).
        stored: a numpy dtype of the same bits whose arrays IREE takes.
    """

    word: str
    number: int
    stored: np.dtype[Any]


def _element(word: str, number: int, stored: str) -> Element:
    return Element(word, number, np.dtype(stored))


ELEMENTS = {
    "bool": _element("i1", 0x13000008, "bool"),
    **{
        f"{sign}int{bits}": _element(f"i{bits}", 0x10000000 + bits, f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float16": _element("f16", 0x21000010, "float16"),
    "bfloat16": _element("bf16", 0x22000010, "uint16"),
    "float32": _element("f32", 0x21000020, "float32"),
    "float64": _element("f64", 0x21000040, "float64"),
    "complex64": _element("complex<f32>", 0x23000040, "complex64"),
}
"""By the name of the numpy dtype. IREE compares bits, so integers of both signs are the same."""


def tensor_word(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Return an array's type as a module's declaration has it, "4x8xf32"."""
    known = ELEMENTS.get(dtype.name)
    word = dtype.name if known is None else known.word
    return "x".join([*map(str, shape), word])


ALIGNMENT = 64
"""Bytes; IREE copies a parameter that lies elsewhere, for every context."""

_DECLARATION = "iree.abi.declaration"
_TENSOR = re.compile(r"tensor<([^<>]*(?:<[^<>]*>)?)>")


class IreeError(Exception):
    """A run that failed, with IREE's message."""


class Hal(NamedTuple):
    """One of IREE's devices, and the module through which contexts reach it."""

    device: Any
    module: Any


class IreeExecutable:
    """A verified module of one public function.

    `where` names it in errors; `driver` is the one to run it with.
    """

    def __init__(self, where: str, module: Any, function: Any, driver: str, results: int) -> None:
        self.where, self.module, self.function = where, module, function
        self.driver, self.results = driver, results
        self.bound: dict[tuple[int, ...], Bound] = {}


class Bound:
    """An executable with its weights.

    A context of IREE's runs one call at a time, so there are as many as calls have run at once. All
    of them share the code and the weights. `kept` are arrays that IREE refers to but does not own.
    """

    def __init__(self, executable: IreeExecutable, make: Callable[[], Any], kept: object) -> None:
        self.function, self.make, self._kept = executable.function, make, kept
        self._results = range(executable.results)
        self.idle = [make()]

    def caller(self, runtime: Any) -> Callable[[Any], list[Buffer]]:
        """Return a function that runs the executable on a list of IREE's buffers."""
        idle, make, function = self.idle, self.make, self.function
        variants, view, results = runtime.VmVariantList, runtime.HalBufferView, self._results
        count = len(results)

        def call(inputs: Any) -> list[Buffer]:
            outputs = variants(count)
            try:
                try:
                    context = idle.pop()
                except IndexError:
                    context = make()
                context.invoke(function, inputs, outputs)
            except Exception as error:
                # Its context is not used again.
                raise IreeError(first_line(error)) from error
            idle.append(context)
            get = outputs.get_as_object
            return [get(index, view) for index in results]

        return call


class IreeDevice(ProcessorDevice):
    """The processor, with IREE's library as `runtime`.

    A weight is no buffer of IREE's, since it becomes a parameter of each module that it is bound
    to.
    """

    platform, engine = iree_names.IREE, "IREE"
    error = IreeError

    def __init__(self, runtime: Any, threads: int) -> None:
        super().__init__(threads)
        self._runtime, self._instance = runtime, runtime.VmInstance()
        self._hals: dict[str, Hal] = {}
        memory, usage = runtime.MemoryType, runtime.BufferUsage
        self._memory = int(memory.DEVICE_LOCAL | memory.HOST_VISIBLE)
        self._usage = int(usage.DEFAULT | usage.MAPPING)
        self._buffers = self._hal(iree_names.LOCAL_SYNC).device
        self.watch_forks()

    def _hal(self, driver: str) -> Hal:
        """Return the device of a driver, started when it is first asked for."""
        with self._lock:
            if driver not in self._hals:
                if driver == iree_names.LOCAL_TASK:
                    self._runtime.parse_flags(f"--task_topology_group_count={self.threads}")
                device = self._runtime.create_hal_driver(driver).create_default_device()
                module = self._runtime.create_hal_module(self._instance, device)
                self._hals[driver] = Hal(device, module)
            return self._hals[driver]

    def load(self, stored: Stored) -> IreeExecutable:
        """Load a module of this architecture."""
        runtime, data = self._runtime, stored.blob.data
        try:
            require_module(data, os.uname().machine)
            module = runtime.VmModule.copy_buffer(self._instance, bytes(data))
            function = module.lookup_function(iree_names.FUNCTION)
            told = {} if function is None else function.reflection
        except Exception as error:
            raise _not_loaded(stored.where, first_line(error)) from error
        if function is None:
            raise _not_loaded(stored.where, f"a module without the function {iree_names.FUNCTION}")
        driver = told.get(iree_names.DRIVER)
        if driver not in iree_names.DRIVERS:
            raise _not_loaded(stored.where, f"code for the driver {str(driver)[:40]!r}")
        _, _, results = told.get(_DECLARATION, "").partition(" -> ")
        found = _TENSOR.findall(results)
        expected = [tensor_word(aval.shape, aval.dtype) for aval in stored.outputs]
        if found != expected:
            # Results are read by the shapes of the manifest.
            raise _not_loaded(stored.where, f"a function that gives {', '.join(found)}"[:200])
        suits = iree_names.LOCAL_SYNC if self.threads == 1 else driver
        return IreeExecutable(stored.where, module, function, suits, len(expected))

    def share(self, array: Array, aval: Aval) -> Weight:
        """Return a weight in place, or an aligned copy of one that lies between alignments."""
        return Weight(align(array, ALIGNMENT))

    def put(self, array: Array, aval: Aval) -> Buffer:
        """Return a copy of an array of exactly its aval."""
        return self._copier(aval)(array)

    def _copier(self, aval: Aval) -> Callable[[Array], Buffer]:
        """Return a function that copies arrays of an aval."""
        known = ELEMENTS[aval.dtype.name]
        copy, device = self._buffers.allocator.allocate_buffer_copy, self._buffers
        memory, usage, number = self._memory, self._usage, known.number
        if known.stored == aval.dtype and aval.shape and 0 not in aval.shape:
            whole = np.ascontiguousarray
            return lambda array: copy(
                memory, usage, device, array if array.flags.c_contiguous else whole(array), number
            )
        shape, stored, view = list(aval.shape), known.stored, self._runtime.HalBufferView

        def through_bytes(array: Array) -> Buffer:
            flat = np.ascontiguousarray(array).reshape(-1).view(stored)
            # IREE has no buffers of no bytes.
            buffer = copy(memory, usage, device, flat if flat.size else np.zeros(1, np.uint8))
            return view(buffer, shape, number)

        return through_bytes

    def execute(self, executable: IreeExecutable, arguments: list[Any]) -> list[Buffer]:
        """Run on the calling thread, or by IREE's pool while that waits. Raises IreeError."""
        weights = {i: each for i, each in enumerate(arguments) if type(each) is Weight}
        inputs = self._runtime.VmVariantList(len(arguments) - len(weights))
        for each in arguments:
            if type(each) is not Weight:
                inputs.push_ref(each)
        bound: Bound = self.bound(executable, weights)
        return bound.caller(self._runtime)(inputs)

    def direct(
        self,
        executable: IreeExecutable,
        weights: Sequence[Weight],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """Return a function of the input leaves."""
        bound: Bound = self.bound(executable, dict(enumerate(weights)))
        call = bound.caller(self._runtime)
        variants, view = self._runtime.VmVariantList, self._runtime.HalBufferView
        copiers, count = tuple(map(self._copier, inputs)), len(inputs)

        def run(*leaves: Any) -> list[Buffer]:
            passed = variants(count)
            for leaf, copy in zip(leaves, copiers, strict=True):
                passed.push_ref(leaf if type(leaf) is view else copy(leaf))
            return call(passed)

        # A tenth of a small call is making buffers.
        copied = _can_be_copied(inputs) and _can_be_copied(outputs)
        vars(run)["on_host"] = self._copying(bound, inputs, outputs) if copied else None
        return run

    def _copying(
        self, bound: Bound, inputs: Sequence[Aval], outputs: Sequence[Aval]
    ) -> Callable[..., list[Array]]:
        """Return a function of arrays with inputs that IREE already holds.

        Each of the calls that run at once has a set of them. Results are copied, since one may be
        an input.
        """
        variants, view = self._runtime.VmVariantList, self._runtime.HalBufferView
        array_of, function, make = np.ndarray, bound.function, bound.make
        count, is_single = len(outputs), len(inputs) == 1
        wanted = [(number, aval.shape, aval.dtype) for number, aval in enumerate(outputs)]

        def room() -> tuple[Any, list[Array]]:
            passed, taken = variants(len(inputs)), []
            for aval in inputs:
                buffer = self.put(np.zeros(aval.shape, aval.dtype), aval)
                taken.append(array_of(aval.shape, aval.dtype, buffer.map()))
                passed.push_ref(buffer)
            return passed, taken

        contexts, rooms = bound.idle, [room()]

        def copying(*leaves: Array) -> list[Array]:
            given = variants(count)
            try:
                passed, taken = mine = rooms.pop()
            except IndexError:
                passed, taken = mine = room()
            if is_single:  # going through one takes a twentieth of a small call
                taken[0][...] = leaves[0]
            else:
                for array, leaf in zip(taken, leaves, strict=True):
                    array[...] = leaf
            try:
                try:
                    context = contexts.pop()
                except IndexError:
                    context = make()
                context.invoke(function, passed, given)
            except Exception as error:
                # Neither its context nor its room is used again.
                raise IreeError(first_line(error)) from error
            contexts.append(context)
            get = given.get_as_object
            made = [
                array_of(shape, dtype, get(number, view).map()).copy()
                for number, shape, dtype in wanted
            ]
            rooms.append(mine)
            for each in made:
                each.setflags(False)  # type: ignore[call-arg]  # by its name it takes twice as long
            return made

        return copying

    def bind(self, executable: IreeExecutable, weights: Mapping[int, Weight]) -> Bound:
        """Bind an executable to weights, by their index among its arguments."""
        runtime, instance, hal = self._runtime, self._instance, self._hal(executable.driver)
        index, kept = runtime.ParameterIndex(), tuple(weight.array for weight in weights.values())
        for place, weight in weights.items():
            index.add_buffer(str(place), weight.array.reshape(-1).view(np.uint8))
        provider = index.create_provider(scope=iree_names.SCOPE)

        def context() -> Any:
            parameters = runtime.create_io_parameters_module(instance, provider)
            return runtime.VmContext(instance, modules=[hal.module, parameters, executable.module])

        try:
            return Bound(executable, context, kept)
        except Exception as error:
            raise _not_loaded(executable.where, first_line(error)) from error

    def viewer(self, aval: Aval) -> Callable[[Buffer], Array]:
        """Return a function that shows buffers of an aval as arrays."""
        shape, dtype, stored = aval.shape, aval.dtype, ELEMENTS[aval.dtype.name].stored
        if 0 in shape:

            def empty(_: Buffer) -> Array:
                array = np.empty(shape, dtype)
                array.setflags(write=False)
                return array

            return empty
        make, is_stored = np.ndarray, stored == dtype

        def shown(buffer: Buffer) -> Array:
            # IREE's own `asarray` of what it maps takes 5 us, numpy's `frombuffer` twice this.
            array: Array = make(shape, stored, buffer.map())
            if not is_stored:
                array = array.view(dtype)
            array.setflags(write=False)
            return array

        return shown


def _can_be_copied(avals: Sequence[Aval]) -> bool:
    """Return whether arrays are small enough that copying is fastest, and possible."""
    return is_small(avals) and all(
        0 not in each.shape and ELEMENTS[each.dtype.name].stored == each.dtype for each in avals
    )


def _not_loaded(where: str, found: str) -> AotcError:
    hint = "rebuild the bundle with the iree-base-compiler of the installed iree-base-runtime"
    return refusal("AOTC-E753", where, found, hint=hint)
