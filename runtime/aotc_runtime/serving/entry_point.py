"""The call path: from arguments to results, each call counted by the executable that served it.

The choice of the executable is one dictionary look-up on the shapes of all input leaves; whatever
does not fit takes the slow path, whose only purpose is a precise error.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.errors import AotcError, BackendError, Finding, ShapeError
from aotc_runtime.schema.manifest import EntryPoint
from aotc_runtime.schema.tree import Leaf, Tree
from aotc_runtime.schema.tree import leaves as leaf_indices
from aotc_runtime.serving import foreign_arrays, trees
from aotc_runtime.serving.arrays import DeviceArray, as_array
from aotc_runtime.serving.no_profile import no_profile
from aotc_runtime.serving.resident import ResidentEntryPoint, ResidentProfile
from aotc_runtime.serving.signature import arguments_of, bind, positional_count, signature_of
from aotc_runtime.serving.telemetry import CallCounter, Latency
from aotc_runtime.serving.threads import Threads
from aotc_runtime.system import pjrt
from aotc_runtime.system.pjrt import Buffer

if TYPE_CHECKING:
    from concurrent.futures import Future

Shapes = tuple[tuple[int, ...], ...]
Array = np.ndarray[Any, Any]

_MODULES = sys.modules

WARMING_CALLS = 3
WARMING_NANOSECONDS = 10_000_000


class Served:
    """A profile as calls use it, with its counter."""

    __slots__ = ("counter", "direct", "finish", "label", "outputs", "profile")

    def __init__(self, profile: ResidentProfile, result: Tree) -> None:
        self.profile = profile
        self.label = profile.label
        self.outputs = profile.outputs
        self.direct = profile.direct
        self.counter = CallCounter()
        self.finish = _finisher(result, profile.outputs)


def _finisher(result: Tree, outputs: tuple[pjrt.Aval, ...]) -> Callable[[list[Buffer]], Any]:
    """From device buffers to the result of a call with numpy arrays."""
    if isinstance(result, Leaf):
        return pjrt.reader_of_one(outputs[0])
    read, build = pjrt.reader(outputs), trees.builder(result)
    return lambda buffers: build(read(buffers))


class LoadedEntryPoint:
    """A callable entry point.

    Calling it takes and returns numpy arrays, or jax arrays if any argument is one; `on_device`
    returns `DeviceArray`s, which any call accepts in turn without a copy; `submit` and `call_async`
    run in another thread. Arguments are checked for structure, dtype and shape; nothing is cast,
    and arrays passed in are never aliased. Raises ShapeError (AOTC-E60x to E63x), BackendError
    (AOTC-E754, E755).
    """

    def __init__(self, resident: ResidentEntryPoint, threads: Threads) -> None:
        spec = resident.spec
        self.name = resident.name
        self.spec: EntryPoint = spec
        self.signature: inspect.Signature = signature_of(spec)
        self._table: dict[Shapes, Served] = {
            profile.record.input_shapes: Served(profile, spec.result)
            for profile in resident.profiles
        }
        self._counters = {served.label: served.counter for served in self._table.values()}
        self._count = len(spec.parameters)
        self._flatteners = [
            trees.flattener(parameter.tree, f"{resident.name} {parameter.name}")
            for parameter in spec.parameters
        ]
        self._flat = all(isinstance(parameter.tree, Leaf) for parameter in spec.parameters)
        self._positional = positional_count(spec.parameters)
        # How many arguments a call has that is nothing but its leaves in order; or never.
        self._plain_count = self._count if self._flat and self._positional == self._count else -1
        first = resident.profiles[0]
        self._dtypes = [aval.dtype for aval in first.inputs]
        self._scalars = [aval.shape == () for aval in first.inputs]
        self._donated = [
            index
            for parameter in spec.parameters
            if parameter.donated
            for index in leaf_indices(parameter.tree)
        ]
        self._build = trees.builder(spec.result)
        self._lock = threading.Lock()
        self._refusals: dict[str, int] = {}
        self._device = pjrt.device()
        self._threads = threads
        self._closed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        started = perf_counter_ns()
        served = None if kwargs else self._at_once(args)
        if served is not None and served.direct is not None:
            try:
                result = served.finish(served.direct(*args))
            except self._device.error as error:
                failure = _failed(served.label, error)
                self._refused(failure)
                raise failure from error
        else:
            try:
                leaves, is_jax = self._leaves(args, kwargs)
                served = self._find(leaves)
                result = self._on_host(served, self._execute(served, leaves), is_jax)
            except AotcError as error:
                self._refused(error)
                raise
        served.counter.observe(perf_counter_ns() - started)
        return result

    def _at_once(self, args: tuple[Any, ...]) -> Served | None:
        """The profile of plain numpy arguments that need no conversion of any kind, if it may be
        called directly; None sends the call the long way, which knows every reason.
        """
        if len(args) != self._plain_count:
            return None
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        if "jax" in _MODULES or self._device.was_forked:
            return None
        # Identity of types: a dtype of another byte order is another object.
        if len(args) == 1:
            leaf = args[0]
            if type(leaf) is not np.ndarray or leaf.dtype is not self._dtypes[0]:
                return None
            return self._table.get((leaf.shape,))
        for leaf, dtype in zip(args, self._dtypes, strict=True):
            if type(leaf) is not np.ndarray or leaf.dtype is not dtype:
                return None
        return self._table.get(tuple([leaf.shape for leaf in args]))

    def on_device(self, *args: Any, **kwargs: Any) -> Any:
        """As a call, with `DeviceArray` leaves: what is fed back never leaves the device."""
        started = perf_counter_ns()
        try:
            leaves, _ = self._leaves(args, kwargs)
            served = self._find(leaves)
            results = self._execute(served, leaves)
        except AotcError as error:
            self._refused(error)
            raise
        result = self._build(
            [DeviceArray(b, a) for b, a in zip(results, served.outputs, strict=True)]
        )
        served.counter.observe(perf_counter_ns() - started)
        return result

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """As a call, in a thread of the bundle; arguments are checked and copied before it returns.

        The future's result is what the call returns. Latency counts from here, waiting included.
        """
        started = perf_counter_ns()
        try:
            leaves, is_jax = self._leaves(args, kwargs)
            served = self._find(leaves)
            arguments, claimed = self._arguments(served.profile, leaves)
        except AotcError as error:
            self._refused(error)
            raise

        def run() -> Any:
            try:
                results = self._run(served.profile, arguments, claimed)
            except AotcError as error:
                self._refused(error)
                raise
            result = self._on_host(served, results, is_jax)
            served.counter.observe(perf_counter_ns() - started)
            return result

        return self._threads.pool().submit(run)

    async def call_async(self, *args: Any, **kwargs: Any) -> Any:
        """As a call, without holding up the event loop."""
        import asyncio

        return await asyncio.wrap_future(self.submit(*args, **kwargs))

    def warm(self, leaves: list[Array]) -> None:
        """Call with these input leaves until nothing is left to prepare; counts for nothing.

        Three calls, or fewer if they take long: what they save is a fraction of a millisecond.
        """
        positional, named = arguments_of(self.spec.parameters, leaves)
        end = perf_counter_ns() + WARMING_NANOSECONDS
        for _ in range(WARMING_CALLS):
            self(*positional, **named)
            if perf_counter_ns() > end:
                break
        for counter in self._counters.values():
            counter.reset()

    @property
    def calls(self) -> dict[str, int]:
        """Calls served, by executable."""
        return {label: counter.calls for label, counter in self._counters.items()}

    @property
    def refusals(self) -> dict[str, int]:
        """Calls refused, by error code."""
        with self._lock:
            return dict(sorted(self._refusals.items()))

    def latencies(self) -> dict[str, Latency]:
        """The latency of the calls served, by executable."""
        return {label: counter.latency() for label, counter in self._counters.items()}

    def _refused(self, error: AotcError) -> None:
        with self._lock:
            self._refusals[error.code] = self._refusals.get(error.code, 0) + 1

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], bool]:
        """The input leaves in order, each a checked numpy array or a DeviceArray; and whether any
        of them was a jax array.
        """
        values: Sequence[Any] = args
        if kwargs or len(args) != self._count or len(args) > self._positional:
            values = bind(self.name, self.signature, args, kwargs)
        if self._flat:
            leaves = list(values)
        else:
            leaves = [None] * len(self._dtypes)
            for flatten, value in zip(self._flatteners, values, strict=True):
                flatten(value, leaves)
        is_jax = False
        for index, (leaf, dtype) in enumerate(zip(leaves, self._dtypes, strict=True)):
            # Identity: a dtype of another byte order is another object.
            if type(leaf) is np.ndarray and leaf.dtype is dtype:
                continue
            if type(leaf) is DeviceArray and leaf.dtype == dtype:
                continue
            spec = self.spec.inputs[index]
            where = f"{self.name} {spec.path}"
            if foreign_arrays.is_jax(leaf):
                is_jax = True
                leaf = foreign_arrays.without_key_type(leaf, spec, where)
            leaves[index] = as_array(leaf, dtype, self._scalars[index], where)
        return leaves, is_jax

    def _find(self, leaves: list[Any]) -> Served:
        shapes = tuple([leaf.shape for leaf in leaves])
        served = self._table.get(shapes)
        if served is None:
            if self._closed:
                raise self._closed_error()
            raise no_profile(self.name, self.spec, shapes, list(self._table))
        return served

    def _execute(self, served: Served, leaves: list[Any]) -> list[Buffer]:
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        if served.direct is None or "jax" in _MODULES or self._device.was_forked:
            arguments, claimed = self._arguments(served.profile, leaves)
            return self._run(served.profile, arguments, claimed)
        buffers = [leaf.buffer() if type(leaf) is DeviceArray else leaf for leaf in leaves]
        try:
            return served.direct(*buffers)
        except self._device.error as error:
            raise _failed(served.label, error) from error

    def _arguments(
        self, profile: ResidentProfile, leaves: list[Any]
    ) -> tuple[list[Buffer], list[DeviceArray]]:
        """Every argument of the executable on the device, and the arrays this call uses up."""
        if self._device.was_forked:
            pjrt.device()  # raises
        put = self._device.put
        claimed = self._claim(leaves, profile.label) if self._donated else []
        claimed_ids = {id(array) for array in claimed}
        buffers: list[Any] = [None] * len(leaves)
        arguments = []
        for argument in profile.arguments:
            if type(argument) is int:
                buffer = buffers[argument]
                if buffer is None:
                    leaf = leaves[argument]
                    if type(leaf) is DeviceArray:
                        buffer = leaf.claimed() if id(leaf) in claimed_ids else leaf.buffer()
                    else:
                        buffer = put(np.ascontiguousarray(leaf), profile.inputs[argument])
                    buffers[argument] = buffer
                arguments.append(buffer)
            else:
                arguments.append(argument)
        return arguments, claimed

    def _run(
        self, profile: ResidentProfile, arguments: list[Buffer], claimed: list[DeviceArray]
    ) -> list[Buffer]:
        try:
            results = pjrt.execute(profile.executable, arguments)
        except self._device.error as error:
            for array in claimed:
                array.give_back()
            raise _failed(profile.label, error) from error
        for array in claimed:
            array.delete()
        return results

    def _claim(self, leaves: list[Any], label: str) -> list[DeviceArray]:
        """Take the device arrays that this call donates, so that no other call can.

        Raises ShapeError (AOTC-E631, E632).
        """
        donated = [leaves[i] for i in self._donated if type(leaves[i]) is DeviceArray]
        everywhere = [id(leaf) for leaf in leaves if type(leaf) is DeviceArray]
        for leaf in donated:
            if everywhere.count(id(leaf)) > 1:
                raise ShapeError(
                    Finding(
                        code="AOTC-E632",
                        where=self.name,
                        expected="a donated array passed once",
                        found=f"{leaf!r} passed twice in one call",
                        hint="pass a copy for the other argument: np.asarray(x)",
                    )
                )
        claimed: list[DeviceArray] = []
        try:
            for leaf in leaves:
                if type(leaf) is DeviceArray:
                    leaf.buffer()
            for leaf in donated:
                leaf.claim(label)
                claimed.append(leaf)
        except ShapeError:
            for leaf in claimed:
                leaf.give_back()
            raise
        return claimed

    def _on_host(self, served: Served, results: list[Buffer], is_jax: bool) -> Any:
        if not is_jax:
            return served.finish(results)
        arrays = [pjrt.to_numpy(b, a) for b, a in zip(results, served.outputs, strict=True)]
        return self._build(foreign_arrays.to_jax(arrays, self.spec.outputs))

    def _closed_error(self) -> ShapeError:
        return ShapeError(
            Finding(
                code="AOTC-E633",
                where=self.name,
                expected="a bundle that is open",
                found="one that was closed",
                hint="load it again",
            )
        )

    def close(self) -> None:
        """Refuse further calls; calls that are running end as they would."""
        self._closed = True
        self._table = {}

    def __repr__(self) -> str:
        return f"<entry point {self.name}{self.signature}: {', '.join(self._counters)}>"


def _failed(label: str, error: Exception) -> BackendError:
    return BackendError(
        Finding(
            code="AOTC-E755",
            where=label,
            expected="XLA to run the executable",
            found=str(error).strip().splitlines()[0],
            hint="the bundle stays usable; if memory ran out, free some or call with less",
        )
    )
