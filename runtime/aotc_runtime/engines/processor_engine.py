"""Engines whose one device is this host's processor, in this process.

The library is a distribution that a host may lack (`engine_protocol.Engine`).
"""

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Executable, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.engines.engine_options import other_platform, other_threads
from aotc_runtime.schema.host_facts import Accelerator
from aotc_runtime.system import host_probe

_END = ".dist-info"

COPIED_BYTES_MAX = 2**14
"""Arguments, and results, up to which a call copies them into and out of memory that stays: copying
a kilobyte takes 20 ns, making a buffer or looking at one in place takes a microsecond."""


def pack(array: Array) -> Array:
    """Return contiguous numbers; `ascontiguousarray` would give a scalar an axis."""
    return array if array.flags.c_contiguous else np.array(array, order="C")


def is_small(avals: Sequence[Aval]) -> bool:
    """Return whether copying arrays of these avals is faster than passing them in place.

    Never for an aval that stands for several sizes, which are -1: no memory fits all of them.
    """
    sizes = [prod(each.shape) * each.dtype.itemsize for each in avals if -1 not in each.shape]
    return len(sizes) == len(avals) and sum(sizes) <= COPIED_BYTES_MAX


class Weight(Struct, frozen=True):
    """A bound weight: memory that executables use in place."""

    array: Array


class ProcessorDevice(Device):
    """The processor as an engine runs on it that binds each executable to its weights once.

    Executables have a dict `bound`, for what `bind` made of them.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._lock = threading.RLock()

    @abstractmethod
    def load(self, stored: Stored) -> Executable:
        """Load one executable.

        Raises BackendError (AOTC-E753) for bytes that are not the engine's, are damaged, refer to
        other data, or have other results.
        """

    @abstractmethod
    def bind(self, executable: Executable, weights: Mapping[int, Any]) -> Any:
        """Bind an executable to weights, by their index among its arguments.

        Raises BackendError (AOTC-E753).
        """

    @abstractmethod
    def viewer(self, aval: Aval) -> Callable[[Buffer], Array]:
        """Return a function that shows buffers of an aval as read-only arrays, without a copy."""

    def deserialize(
        self, every: Sequence[Stored], numbers: Sequence[int], custom_calls: Sequence[str]
    ) -> list[Executable]:
        """Load executables, in order; as `Device.deserialize`. The same one is loaded once."""
        keys = [(id(stored.blob), tuple(stored.outputs)) for stored in every]
        made = {
            key: self.load(stored) for key, stored in dict(zip(keys, every, strict=True)).items()
        }
        return [made[key] for key in keys]

    def bound(self, executable: Executable, weights: Mapping[int, Any]) -> Any:
        """Return what `bind` gives for these weights, which it is asked for once."""
        key = tuple(id(weight.array) for weight in weights.values())
        found = executable.bound.get(key)
        if found is None:
            with self._lock:
                found = executable.bound.get(key) or self.bind(executable, weights)
                executable.bound[key] = found
        return found

    def to_numpy(self, buffer: Buffer, aval: Aval) -> Array:
        """Return a result as numpy: read-only, without a copy, keeping the buffer alive."""
        return self.viewer(aval)(buffer)


class Library(Struct, frozen=True):
    """The library that runs executables.

    Attributes:
        package: the name it is imported by.
        distribution: the distribution that has it.
        extra: the extra of aotc-runtime that installs it.
        name: the engine's, in messages.
    """

    package: str
    distribution: str
    extra: str
    name: str

    def installed_version(self) -> str:
        """Return the version that can be imported; "" without one. Imports nothing.

        From the name of the folder that an installer leaves beside the package: importlib.metadata
        takes 10 ms to say the same.
        """
        spec = host_probe.spec_of(self.package)
        begin = f"{self.distribution.replace('-', '_')}-"
        for place in spec.submodule_search_locations or () if spec is not None else ():
            with suppress(OSError):
                for name in os.listdir(os.path.dirname(place)):
                    if name.startswith(begin) and name.endswith(_END):
                        return name.removeprefix(begin).removesuffix(_END)
        return ""


class ProcessorEngine:
    """An engine for the processor.

    `kinds` are the engine's names for the processor. `make` imports the library and makes the
    device for a number of threads, once in a process.
    """

    def __init__(
        self, platform: str, library: Library, kinds: tuple[str, ...], make: Callable[[int], Device]
    ) -> None:
        self.platforms = (platform,)
        self._platform, self._library, self._kinds, self._make = platform, library, kinds, make
        self._device: Device | None = None
        self._lock = threading.Lock()

    def facts(self, platform: str) -> Accelerator | None:
        """Return the processor as the engine runs on it, with the host's memory.

        It has no devices if the library is missing. None for other platforms.
        """
        if platform != self._platform:
            return None
        version = self._library.installed_version()
        if not version:
            return Accelerator(platform=platform, devices=0)
        return Accelerator(
            platform=platform,
            devices=1,
            kinds=self._kinds,
            memory_bytes=host_probe.free_memory(),
            plugin=version,
        )

    def machine(self, threads: int | None, devices: int | None) -> None:
        """Return None: the system describes the processor well enough."""

    def start(
        self, platform: str, threads: int | None = None, devices: int | None = None
    ) -> Device:
        """Return the processor; the first call starts it with this number of threads.

        Raises BackendError: AOTC-E758 where the library is missing or the platform unknown, E754
        in a process forked after the first use; ResourceError (AOTC-E552) for another number of
        threads.
        """
        if platform != self._platform:
            raise other_platform(platform, self._platform)
        with self._lock:
            if self._device is None:
                self._device = self._make_device(threads or len(os.sched_getaffinity(0)))
        if threads is not None and threads != self._device.threads:
            raise other_threads(self._device.engine, self._device.threads, threads)
        self._device.require_unforked()
        return self._device

    def _make_device(self, threads: int) -> Device:
        try:
            return self._make(threads)
        except ImportError as error:
            raise refusal(
                "AOTC-E758",
                self._platform,
                str(error),
                cause="engine-is-not-installed",
                expected=self._library.name,
                hint=f"run `pip install {self._library.distribution}`",
            ) from error
