"""An executable as calls use it, with the counter of its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.device import Aval, Buffer, Device
from aotc_runtime.schema.tree import Leaf, Tree
from aotc_runtime.serving import trees
from aotc_runtime.serving.resident import ResidentExecutable

if TYPE_CHECKING:
    from aotc_runtime.serving.arrays import DeviceArray
    from aotc_runtime.serving.tallies import Latency

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

    def latency(self) -> Latency:
        """A consistent picture of this moment."""
        from aotc_runtime.serving.tallies import Latency

        with self._lock:
            self._sort()
            calls, nanoseconds, buckets = self._calls, self._nanoseconds, list(self._buckets)
        used = [index for index, count in enumerate(buckets) if count]
        shown = range(used[0], used[-1] + 1) if used else range(0)
        return Latency(
            calls=calls,
            seconds=nanoseconds / 1e9,
            bounds=tuple(2**index / 1e9 for index in shown),
            cumulative=tuple(sum(buckets[: index + 1]) for index in shown),
        )


class Served:
    """An executable as calls use it, with its counter.

    device: that it runs on.  masks: masks and lengths, which the loader passes, by leaf, for a call
    of exactly its sizes.
    """

    __slots__ = ("counter", "direct", "executable", "finish", "label", "masks", "outputs")

    def __init__(
        self,
        device: Device,
        executable: ResidentExecutable,
        result: Tree,
        masks: Sequence[tuple[int, DeviceArray]] = (),
    ) -> None:
        self.executable = executable
        self.label = executable.label
        self.outputs = executable.outputs
        self.direct = executable.direct
        self.masks = masks
        self.counter = CallCounter()
        self.finish = _finisher(device, result, executable.outputs)


def _finisher(
    device: Device, result: Tree, outputs: tuple[Aval, ...]
) -> Callable[[list[Buffer]], Any]:
    """From device buffers to the result of a call with numpy arrays."""
    if isinstance(result, Leaf):
        return device.reader_of_one(outputs[0])
    read, build = device.reader(outputs), trees.builder(result)
    return lambda buffers: build(read(buffers))
