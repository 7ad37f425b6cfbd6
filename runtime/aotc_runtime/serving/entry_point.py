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

from aotc_runtime.engines.protocol import Buffer, Device
from aotc_runtime.errors import AotcError, Finding, ShapeError
from aotc_runtime.schema.manifest import EntryPoint
from aotc_runtime.schema.tree import Leaf
from aotc_runtime.schema.tree import leaves as leaf_indices
from aotc_runtime.serving import foreign_arrays, trees
from aotc_runtime.serving.arrays import DeviceArray, as_array
from aotc_runtime.serving.execution import Execution, Served, failed
from aotc_runtime.serving.resident import ResidentEntryPoint, ResidentProfile
from aotc_runtime.serving.signature import (
    arguments_of,
    bind,
    passed_leaves,
    passed_parameters,
    positional_count,
    signature_of,
)
from aotc_runtime.serving.tallies import Exact, Tallies
from aotc_runtime.serving.threads import Threads

if TYPE_CHECKING:
    from concurrent.futures import Future

    from aotc_runtime.serving.detour import Detour

Shapes = tuple[tuple[int, ...], ...]
Array = np.ndarray[Any, Any]

_MODULES = sys.modules

WARMING_CALLS = 3
WARMING_NANOSECONDS = 10_000_000


class LoadedEntryPoint:
    """A callable entry point.

    Calling it takes and returns numpy arrays, or jax arrays if any argument is one; `on_device`
    returns `DeviceArray`s, which any call accepts in turn without a copy; `submit` and `call_async`
    run in another thread. Arguments are checked for structure, dtype and shape; nothing is cast,
    and arrays passed in are never aliased. Raises ShapeError (AOTC-E60x to E63x), BackendError
    (AOTC-E754, E755), ResourceError (AOTC-E553).

    parameters: what a call passes, without masks and lengths, which the loader passes.  passed: the
    leaves of spec.inputs that they hold.
    """

    def __init__(self, resident: ResidentEntryPoint, threads: Threads) -> None:
        spec = resident.spec
        self.name = resident.name
        self.spec: EntryPoint = spec
        self.parameters = passed_parameters(spec)
        self.signature: inspect.Signature = signature_of(self.parameters)
        self.passed = passed_leaves(spec)
        self._is_all_passed = len(self.passed) == len(spec.inputs)
        served = [
            Served(
                resident.device,
                profile,
                spec.result,
                () if self._is_all_passed else _supplied(resident.device, spec, profile),
            )
            for profile in resident.profiles
        ]
        self._table: dict[Shapes, Served] = {
            tuple(record.input_shapes[leaf] for leaf in self.passed): each
            for record, each in zip(spec.profiles, served, strict=True)
        }
        self.tallies = Tallies(
            [
                Exact(tuple(sorted(record.sizes.items())), each.label, each.counter)
                for record, each in zip(spec.profiles, served, strict=True)
            ]
        )
        self._count = len(self.parameters)
        self._flatteners = [
            trees.flattener(parameter.tree, f"{resident.name} {parameter.name}")
            for parameter in self.parameters
        ]
        self._flat = self._is_all_passed and all(
            isinstance(parameter.tree, Leaf) for parameter in self.parameters
        )
        self._positional = positional_count(self.parameters)
        # The number of positional arguments of a call that are its leaves in order; -1 if never so.
        self._plain_count = self._count if self._flat and self._positional == self._count else -1
        first = resident.profiles[0]
        self._dtypes = [aval.dtype for aval in first.inputs]
        self._expected = [(leaf, first.inputs[leaf].dtype) for leaf in self.passed]
        self._scalars = [aval.shape == () for aval in first.inputs]
        self._execution = Execution(
            resident.device,
            resident.name,
            [
                index
                for parameter in self.parameters
                if parameter.donated
                for index in leaf_indices(parameter.tree)
            ],
        )
        self._build = trees.builder(spec.result)
        self._lock = threading.Lock()
        self._resident: ResidentEntryPoint | None = resident
        self._detour: Detour | None = None
        if spec.out_of_profile:
            self._detoured()
        self._device = self._execution.device
        self._threads = threads

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        started = perf_counter_ns()
        served = None if kwargs else self._at_once(args)
        if served is not None and served.direct is not None:
            try:
                result = served.finish(served.direct(*args))
            except self._device.error as error:
                failure = failed(self._device, served.label, error)
                self.tallies.refused(failure.code)
                raise failure from error
            served.counter.observe(perf_counter_ns() - started)
            return result
        try:
            leaves, is_jax = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                return self._detoured().call(self._shapes(leaves), leaves, is_jax, started)
            result = self._on_host(served, self._execution.execute(served, leaves), is_jax)
        except AotcError as error:
            self.tallies.refused(error.code)
            raise
        served.counter.observe(perf_counter_ns() - started)
        return result

    def _at_once(self, args: tuple[Any, ...]) -> Served | None:
        """The profile that serves these arguments, if they are plain numpy arrays that need no
        conversion. None sends the call through all checks, which find the reason.
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

    def on_device(self, /, *args: Any, **kwargs: Any) -> Any:
        """As a call, with `DeviceArray` leaves: what is fed back never leaves the device, unless
        it has to be padded or cut.
        """
        started = perf_counter_ns()
        try:
            leaves, _ = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                return self._detoured().on_device(self._shapes(leaves), leaves, started)
            buffers = self._execution.execute(served, leaves)
        except AotcError as error:
            self.tallies.refused(error.code)
            raise
        result = self._build(
            [DeviceArray(self._device, b, a) for b, a in zip(buffers, served.outputs, strict=True)]
        )
        served.counter.observe(perf_counter_ns() - started)
        return result

    def submit(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As a call, in a thread of the bundle; arguments are checked and copied before it returns.

        The future's result is what the call returns. Latency counts from here, waiting included.
        """
        started = perf_counter_ns()
        try:
            leaves, is_jax = self._leaves(args, kwargs)
            served = self._exact(leaves)
            if served is None:
                work = self._detoured().later(self._shapes(leaves), leaves, is_jax, started)
            else:
                work = self._later(served, leaves, is_jax, started)
        except AotcError as error:
            self.tallies.refused(error.code)
            raise

        def run() -> Any:
            try:
                return work()
            except AotcError as error:
                self.tallies.refused(error.code)
                raise

        return self._threads.pool().submit(run)

    def _later(
        self, served: Served, leaves: list[Any], is_jax: bool, started: int
    ) -> Callable[[], Any]:
        """The call of an executable whose arguments are on the device already."""
        execution = self._execution
        arguments, claimed = execution.arguments(served.executable, leaves)

        def work() -> Any:
            results = execution.run(served.executable, arguments, claimed)
            result = self._on_host(served, results, is_jax)
            served.counter.observe(perf_counter_ns() - started)
            return result

        return work

    async def call_async(self, /, *args: Any, **kwargs: Any) -> Any:
        """As a call, without holding up the event loop."""
        import asyncio

        return await asyncio.wrap_future(self.submit(*args, **kwargs))

    def warm(self, leaves: list[Array]) -> None:
        """Call with these input leaves to warm up; these calls are not counted. Three calls, or
        fewer if they take long, since they save later calls a fraction of a millisecond.
        """
        positional, named = arguments_of(self.parameters, leaves)
        end = perf_counter_ns() + WARMING_NANOSECONDS
        for _ in range(WARMING_CALLS):
            self(*positional, **named)
            if perf_counter_ns() > end:
                break
        self.tallies.forget_exact()

    @property
    def calls(self) -> dict[str, int]:
        """How many calls each executable served; a split call counts for its largest part."""
        return self.tallies.calls

    @property
    def refusals(self) -> dict[str, int]:
        """Calls refused, by error code."""
        return self.tallies.refusals

    @property
    def compiles(self) -> dict[str, Any] | None:
        """JSON: what was compiled for calls; None without a policy that compiles."""
        return self._detour.compiles if self._detour is not None else None

    def report(self) -> dict[str, Any]:
        """What was counted; JSON-able. docs/serving.md tells every field."""
        return {**self.tallies.report(), "compiles": self.compiles}

    def _shapes(self, leaves: list[Any]) -> Shapes:
        if self._is_all_passed:
            return tuple([leaf.shape for leaf in leaves])
        return tuple([leaves[index].shape for index in self.passed])

    def _exact(self, leaves: list[Any]) -> Served | None:
        """The profile with exactly these sizes; masks and lengths are added to the leaves."""
        served = self._table.get(self._shapes(leaves))
        if served is not None:
            for leaf, array in served.supplied:
                leaves[leaf] = array
        return served

    def _detoured(self) -> Detour:
        """The part that serves calls which no profile fits, or refuses them; made on first use."""
        with self._lock:
            if self._resident is None:
                raise self._closed_error()
            if self._detour is None:
                # Imported here: servers whose calls fit the profiles never need it.
                from aotc_runtime.serving.detour import Detour

                self._detour = Detour(
                    self._resident, [*self._table.values()], self._execution, self.tallies
                )
            return self._detour

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], bool]:
        """The input leaves in order, each a checked numpy array or a DeviceArray; and whether any
        of them was a jax array.
        """
        values: Sequence[Any] = args
        if kwargs or len(args) != self._count or len(args) > self._positional:
            values = bind(self.name, self.signature, args, kwargs, self.spec)
        if self._flat:
            leaves = list(values)
        else:
            leaves = [None] * len(self._dtypes)
            for flatten, value in zip(self._flatteners, values, strict=True):
                flatten(value, leaves)
        is_jax = False
        for index, dtype in self._expected:
            leaf = leaves[index]
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

    def _on_host(self, served: Served, results: list[Buffer], is_jax: bool) -> Any:
        if not is_jax:
            return served.finish(results)
        read = self._device.to_numpy
        arrays = [read(b, a) for b, a in zip(results, served.outputs, strict=True)]
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
        with self._lock:
            self._resident = None
            self._table = {}
            detour, self._detour = self._detour, None
        if detour is not None:
            detour.close()

    def __repr__(self) -> str:
        labels = ", ".join(self.calls)
        return f"<entry point {self.name}{self.signature}: {labels}>"


def _supplied(
    device: Device, spec: EntryPoint, profile: ResidentProfile
) -> Sequence[tuple[int, DeviceArray]]:
    """What the loader passes to a profile for calls of exactly its sizes."""
    from aotc_runtime.serving.supplied import on_device, supplied_inputs

    record = profile.record
    return on_device(device, supplied_inputs(spec), record.input_shapes, record.sizes)
