"""The devices of an engine in this process, and the arrays and executables on them.

Each engine implements `Device`; what only some engines can do is in `device_features`.
`engine_protocol` says how an engine is found and used.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Executable, Stored

if TYPE_CHECKING:
    from aotc_runtime.engines.device_features import DeviceFeatures


class Device(ABC):
    """The devices of one platform in this process.

    Attributes:
        platform: The platform of the targets whose executables run here.
        engine: The engine's name in messages.
        threads: The size of its thread pool.
        device_count: The number of devices.
        flags: The environment's flags for the engine.
        error: The exception that the engine raises.
        minds_jax: Whether settings of jax may change it.
        was_forked: Whether this process is a fork of the one that started it, in which its threads
            are gone.
        repeats_exactly: Whether the same inputs always give the same bytes; false where threads add
            up in another order each time.
        begin_reads: Begins to copy results that are about to be read, where memory is not shared.
    """

    platform: str
    engine: str
    threads: int = 1
    device_count: int = 1
    flags: str = ""
    error: type[Exception] = RuntimeError
    minds_jax: bool = False
    was_forked: bool = False
    repeats_exactly: bool = True
    begin_reads: Callable[[list[Buffer]], None] | None = None

    @abstractmethod
    def deserialize(
        self, every: Sequence[Stored], numbers: Sequence[int], custom_calls: Sequence[str]
    ) -> list[Executable]:
        """Load executables, in order; compiles and runs nothing.

        `numbers` are of the devices that each runs on; `custom_calls` names the calls outside their
        own code. Raises BackendError (AOTC-E753) for bytes that the engine does not load.
        """

    @abstractmethod
    def put(self, array: Array, aval: Aval) -> Buffer:
        """Copy a user's array to the device; the array may change as soon as this returns."""

    @abstractmethod
    def execute(self, executable: Executable, arguments: list[Buffer]) -> list[Buffer]:
        """Run on the calling thread until the results are complete.

        Other Python threads run meanwhile. Raises `error`.
        """

    @abstractmethod
    def to_numpy(self, buffer: Buffer, aval: Aval) -> Array:
        """Return a result as numpy: a copy, or a read-only view that keeps the buffer alive."""

    def share(self, array: Array, aval: Aval) -> Buffer:
        """Return a buffer for an array that never changes, such as a mapped weight.

        It is used in place if possible; by default it is copied.
        """
        return self.put(array, aval)

    def direct(
        self,
        executable: Executable,
        weights: Sequence[Buffer],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """Return a faster function than `put` and `execute` for an executable, or None.

        It takes the input leaves, numpy arrays and buffers of exactly their avals. It is requested
        only for executables that take the weights first, then every input, and donate none. Its
        optional attribute `on_host` does the same from arrays to arrays, if that is faster.
        """
        return None

    def viewer(self, aval: Aval) -> Callable[[Buffer], Array]:
        """Return a function that reads results of an aval as `to_numpy` does, for many calls."""
        read = self.to_numpy
        return lambda buffer: read(buffer, aval)

    def compilations(self) -> int:
        """Return the number of live executables that were compiled without permission.

        These were neither deserialized nor compiled for calls under a policy that allows it. Any
        other number than 0 is a bug.
        """
        return 0

    def forget_released(self) -> None:
        """Release memory that released buffers and executables used in place.

        By default, none is kept.
        """
        return

    @cached_property
    def features(self) -> DeviceFeatures:
        """Return the optional features, imported for the first call that needs them."""
        from aotc_runtime.engines.device_features import DeviceFeatures

        return DeviceFeatures(self.engine, self.platform)

    def watch_forks(self) -> None:
        """Call `was_forked` in processes forked from here on; for engines with threads."""
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._mark_forked)

    def _mark_forked(self) -> None:
        self.was_forked = True

    def require_unforked(self) -> None:
        """Raises BackendError (AOTC-E754) in a process forked after the engine was started."""
        if self.was_forked:
            from aotc_runtime.engines.engine_options import fork_error

            raise fork_error(self.engine, self._pid)
