"""The call path: from arguments to results, each call counted by the executable that served it.

The choice of the executable is one dictionary look-up on the shapes of all input leaves. Whatever
needs more than that goes to `checked_calls`, which is imported for the first such call.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc_runtime.engines.engine_device import Aval, Buffer, Device
from aotc_runtime.schema.bundle_manifest import EntryPoint
from aotc_runtime.schema.manifest_labels import passed_leaves, passed_parameters, positional_count
from aotc_runtime.schema.pytrees import Leaf, Tree
from aotc_runtime.serving import rebuilt_trees
from aotc_runtime.serving.rebuilt_trees import arguments_of
from aotc_runtime.serving.resident_bundle import ResidentEntryPoint, ResidentExecutable

if TYPE_CHECKING:
    import inspect
    from concurrent.futures import Future

    from aotc_runtime.serving.call_metrics import Tallies
    from aotc_runtime.serving.checked_calls import CheckedCalls
    from aotc_runtime.serving.device_arrays import DeviceArray
    from aotc_runtime.serving.loaded_bundle import Threads


BUCKETS = 40
"""Powers of two nanoseconds: the last holds everything above nine minutes."""

PENDING_MAX = 1024
"""How many latencies may wait to be sorted into buckets."""


class CallCounter:
    """Counts the calls that one executable served; safe to use from many threads.

    A call only appends to a list, which needs no lock of ours; whoever reads, and every
    PENDING_MAX-th call, sorts what has gathered.
    """

    __slots__ = ("_buckets", "_calls", "_lock", "_nanoseconds", "_pending")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._pending.clear()
            self._calls = 0
            self._nanoseconds = 0
            self._buckets = [0] * BUCKETS

    def observe(self, nanoseconds: int) -> None:
        """Count one call."""
        pending = self._pending
        pending.append(nanoseconds)
        if len(pending) >= PENDING_MAX:
            with self._lock:
                self._sort()

    def _sort(self) -> None:
        """Take what has gathered by now; other threads go on appending behind it."""
        gathered = self._pending[:]
        del self._pending[: len(gathered)]
        self._calls += len(gathered)
        self._nanoseconds += sum(gathered)
        for nanoseconds in gathered:
            self._buckets[min(nanoseconds.bit_length(), BUCKETS - 1)] += 1

    @property
    def calls(self) -> int:
        with self._lock:
            return self._calls + len(self._pending)

    def gathered(self) -> tuple[int, int, list[int]]:
        """How many calls, their nanoseconds, and how many of each bucket, all of one moment."""
        with self._lock:
            self._sort()
            return self._calls, self._nanoseconds, list(self._buckets)


class Served:
    """An executable as calls use it, with its counter.

    masks: masks and lengths, which the loader passes, by leaf, for a call of exactly its sizes.
    call, show: of numpy arrays; from what it gives to the result.
    """

    def __init__(
        self,
        executable: ResidentExecutable,
        result: Tree,
        masks: Sequence[tuple[int, DeviceArray]] = (),
    ) -> None:
        self.executable = executable
        self.label = executable.label
        self.device = executable.device
        self.outputs = executable.outputs
        self.masks = masks
        self.counter = CallCounter()
        self.direct = executable.direct
        self.finish = _finisher(self.device, result, self.outputs)
        self.call = self.direct
        self.show = self.finish
        if self.direct is not None and (on_host := self.device.on_host(self.direct)) is not None:
            self.call, self.show = on_host, rebuilt_trees.builder(result)


def _finisher(
    device: Device, result: Tree, outputs: tuple[Aval, ...]
) -> Callable[[list[Buffer]], Any]:
    """From device buffers to the result of a call with numpy arrays."""
    if isinstance(result, Leaf):
        return device.reader_of_one(outputs[0])
    read, build = device.reader(outputs), rebuilt_trees.builder(result)
    return lambda buffers: build(read(buffers))


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
        self.passed = passed_leaves(spec)
        is_all_passed = len(self.passed) == len(spec.inputs)
        masks: Mapping[int, Sequence[tuple[int, DeviceArray]]] = {}
        if not is_all_passed:
            from aotc_runtime.serving.routing.padding_masks import masks_by_profile

            masks = masks_by_profile(resident)
        served = [
            Served(profile, spec.result, masks.get(number, ()))
            for number, profile in enumerate(resident.profiles)
        ]
        self._table: dict[Shapes, Served] = {
            tuple(record.input_shapes[leaf] for leaf in self.passed): each
            for record, each in zip(spec.profiles, served, strict=True)
        }
        self._counters = [(each.label, each.counter) for each in served]
        # How many arguments a call by position has whose leaves they are, in order; -1 if none is.
        count = len(self.parameters)
        is_plain = is_all_passed and all(isinstance(p.tree, Leaf) for p in self.parameters)
        is_plain = is_plain and positional_count(self.parameters) == count
        self._plain_count = count if is_plain else -1
        self._dtypes = [aval.dtype for aval in resident.profiles[0].inputs]
        self._only = self._dtypes[0] if self._plain_count == 1 else None
        # Under jax's settings jaxlib's call path might take 64-bit arrays for 32-bit ones.
        self._rival = "jax" if any(each.device.minds_jax for each in resident.profiles) else ""
        self._threads = threads
        self._lock = threading.RLock()
        self._resident: ResidentEntryPoint | None = resident
        self._tallies: Tallies | None = None
        self._checked: CheckedCalls | None = None
        if spec.out_of_profile:
            self._checked_calls().fallback()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        started = perf_counter_ns()
        leaf = args[0] if len(args) == 1 and not kwargs else None
        if type(leaf) is np.ndarray and leaf.dtype is self._only and self._rival not in _MODULES:
            served = self._table.get((leaf.shape,))
        else:
            served = None if kwargs else self._at_once(args)
        if served is not None and served.call is not None and not served.device.was_forked:
            try:
                result = served.show(served.call(*args))
            except served.device.error as error:
                from aotc_runtime.serving.serving_refusals import failed

                failure = failed(served.device, served.label, error)
                self.tallies.refused(failure.code)
                raise failure from error
            served.counter.observe(perf_counter_ns() - started)
            return result
        return (self._checked or self._checked_calls()).call(args, kwargs, started)

    def _at_once(self, args: tuple[Any, ...]) -> Served | None:
        """The profile that serves these arguments, if they are plain numpy arrays that need no
        conversion. None sends the call through all checks, which find the reason.
        """
        if len(args) != self._plain_count:
            return None
        if self._rival in _MODULES:
            return None
        # Identity of types: a dtype of another byte order is another object.
        for leaf, dtype in zip(args, self._dtypes, strict=True):
            if type(leaf) is not np.ndarray or leaf.dtype is not dtype:
                return None
        return self._table.get(tuple([leaf.shape for leaf in args]))

    def on_device(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it, with `DeviceArray` leaves as results: what is fed back never leaves the device,
        unless it has to be padded or cut.
        """
        started = perf_counter_ns()
        return self._checked_calls().on_device(args, kwargs, started)

    def submit(self, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it in a thread of the bundle; arguments are checked and copied before this returns.

        The future's result is what the call returns. Latency counts from here, waiting included.
        """
        started = perf_counter_ns()
        return self._checked_calls().submit(args, kwargs, started)

    async def call_async(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call it without holding up the event loop."""
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
        for _, counter in self._counters:
            counter.reset()

    @property
    def signature(self) -> inspect.Signature:
        """What a caller passes, in Python's terms."""
        from aotc_runtime.serving.call_signature import signature_of

        return signature_of(self.parameters)

    @property
    def tallies(self) -> Tallies:
        """Everything that is counted beside the calls of each profile."""
        with self._lock:
            if self._tallies is None:
                from aotc_runtime.serving.call_metrics import Exact, Tallies

                sizes = [tuple(sorted(record.sizes.items())) for record in self.spec.profiles]
                self._tallies = Tallies(
                    [Exact(s, *counted) for s, counted in zip(sizes, self._counters, strict=True)]
                )
            return self._tallies

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
        return self._checked.compiles if self._checked is not None else None

    def report(self) -> dict[str, Any]:
        """What was counted; JSON-able. docs/serving.md tells every field."""
        return {**self.tallies.report(), "compiles": self.compiles}

    def _checked_calls(self) -> CheckedCalls:
        """The part that looks at arguments one by one; made on first use."""
        with self._lock:
            if self._checked is None:
                from aotc_runtime.serving.checked_calls import CheckedCalls, closed_error

                if self._resident is None:
                    self.tallies.refused("AOTC-E633")
                    raise closed_error(self.name)
                self._checked = CheckedCalls(
                    self._resident, self._table, self.tallies, self._threads
                )
            return self._checked

    def close(self) -> None:
        """Refuse further calls; calls that are running end as they would."""
        with self._lock:
            self._resident = None
            checked = self._checked
        # First, since it makes its part for calls that no profile fits of what is in the table.
        if checked is not None:
            checked.close()
        self._table.clear()

    def __repr__(self) -> str:
        labels = ", ".join(self.calls)
        return f"<entry point {self.name}{self.signature}: {labels}>"
