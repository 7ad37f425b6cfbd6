"""An engine whose one device is this host's processor, in this process, and whose library is a
distribution that a host has or lacks (`protocol.Engine`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from msgspec import Struct

from aotc_runtime.base.errors import refusal
from aotc_runtime.engines.engine_device import Array, Device
from aotc_runtime.engines.engine_options import other_platform, other_threads
from aotc_runtime.schema.host_facts import Accelerator
from aotc_runtime.system import host_probe

_END = ".dist-info"


def packed(array: Array) -> Array:
    """An array's numbers one after the other; `ascontiguousarray` would give a number an axis."""
    return array if array.flags.c_contiguous else np.array(array, order="C")


class Library(Struct, frozen=True):
    """What runs executables. package: as it is imported.  distribution: that brings it.  extra: of
    aotc-runtime, that installs it.  name: the engine's, in messages.
    """

    package: str
    distribution: str
    extra: str
    name: str

    def installed(self) -> str:
        """The version that can be imported; "" without one. Imports nothing.

        From the name of the folder that an installer leaves beside the package: importlib.metadata
        takes 10 ms to say the same.
        """
        try:
            spec = find_spec(self.package)
        except ImportError:  # of a finder that refuses it
            return ""
        begin = f"{self.distribution.replace('-', '_')}-"
        for place in spec.submodule_search_locations or () if spec is not None else ():
            for found in Path(place).parent.glob(f"{begin}*{_END}"):
                return found.name.removeprefix(begin).removesuffix(_END)
        return ""


class ProcessorEngine:
    """kinds: the engine's words for the processor.  make: imports the library and makes the device,
    for a number of threads; once in a process.
    """

    def __init__(
        self, platform: str, library: Library, kinds: tuple[str, ...], make: Callable[[int], Device]
    ) -> None:
        self.platforms = (platform,)
        self._platform, self._library, self._kinds, self._make = platform, library, kinds, make
        self._device: Device | None = None
        self._lock = threading.Lock()

    def facts(self, platform: str) -> Accelerator | None:
        """The processor as the engine runs on it, with the host's memory; without devices where the
        library is missing. None for other platforms.
        """
        if platform != self._platform:
            return None
        version = self._library.installed()
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
        """The system knows the processor as well."""

    def start(
        self, platform: str, threads: int | None = None, devices: int | None = None
    ) -> Device:
        """The processor, started with so many threads by the first who asks.

        Raises BackendError: AOTC-E758 where the library is missing or the platform unknown, E754
        in a process forked after the first use; ResourceError (AOTC-E552) for another number of
        threads.
        """
        if platform != self._platform:
            raise other_platform(platform, self._platform)
        with self._lock:
            if self._device is None:
                self._device = self._made(threads or len(os.sched_getaffinity(0)))
        if threads is not None and threads != self._device.threads:
            raise other_threads(self._device.engine, self._device.threads, threads)
        self._device.require_unforked()
        return self._device

    def _made(self, threads: int) -> Device:
        try:
            return self._make(threads)
        except ImportError as error:
            distribution = self._library.distribution
            raise refusal(
                "AOTC-E758",
                self._platform,
                f"{distribution} cannot be imported: {error}",
                expected=self._library.name,
                hint=f"`pip install {distribution}`, or the extra `{self._library.extra}` of "
                "aotc-runtime",
            ) from error
