"""An executable as calls use it: how it is called, how its results are read, and its counter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.engine_arrays import Aval, Buffer
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.schema.pytrees import Leaf, Tree, builder
from aotc_runtime.serving.resident_bundle import ResidentExecutable

if TYPE_CHECKING:
    # Imported for the first call that needs it.
    from aotc_runtime.serving.device_arrays import DeviceArray

BUCKETS = 40
"""Powers of two nanoseconds: the last holds everything above nine minutes."""

PENDING_MAX = 1024
"""The maximum number of latencies that wait to be sorted into buckets."""

Shapes = tuple[tuple[int, ...], ...]
"""Shapes of the leaves that a caller passes, in their order."""


class CallCounter:
    """Counts the calls that one executable served; safe to use from many threads.

    A call only appends to a list, which needs no lock of ours; the reader, and every
    PENDING_MAX-th call, sorts what has gathered.
    """

    __slots__ = ("_buckets", "_lock", "_nanoseconds", "_pending")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._pending.clear()
            self._nanoseconds = 0
            self._buckets = [0] * BUCKETS

    def observe(self, nanoseconds: int) -> None:
        """Count one call."""
        pending = self._pending
        pending.append(nanoseconds)
        if len(pending) >= PENDING_MAX:
            self.snapshot()

    def snapshot(self) -> tuple[int, list[int]]:
        """Return the nanoseconds of all calls, and the calls of each bucket, at one moment."""
        with self._lock:
            # Other threads go on appending behind what is taken here.
            pending = self._pending[:]
            del self._pending[: len(pending)]
            self._nanoseconds += sum(pending)
            for nanoseconds in pending:
                self._buckets[min(nanoseconds.bit_length(), BUCKETS - 1)] += 1
            return self._nanoseconds, list(self._buckets)


class Served:
    """An executable as calls use it, with its counter.

    `masks` are masks and lengths, which the loader passes, by leaf, for a call of exactly its
    sizes. `call` takes numpy arrays, and `show` makes the result of what it returns.
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
        if (on_host := getattr(self.direct, "on_host", None)) is not None:
            self.call, self.show = on_host, builder(result)


def _finisher(
    device: Device, result: Tree, outputs: tuple[Aval, ...]
) -> Callable[[list[Buffer]], Any]:
    """Return a function from device buffers to the result of a call with numpy arrays."""
    viewers = [device.viewer(aval) for aval in outputs]
    build, begin = builder(result), device.begin_reads
    if isinstance(result, Leaf):
        show = viewers[0]
        return lambda buffers: show(buffers[0])

    def finish(buffers: list[Buffer]) -> Any:
        if begin is not None:
            begin(buffers)
        return build([view(each) for view, each in zip(viewers, buffers, strict=True)])

    return finish
