"""The host's processor as XLA sees it: arrays are used in place, and calls run in jaxlib's own
compiled path. Private names of jaxlib beside those of `client`:

    jaxlib.xla_client.get_topology_for_devices
    jaxlib.lapack: _lapack.initialize, registrations
    LoadedExecutable.get_compiled_memory_stats
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aotc_runtime.engines.protocol import Array, Aval, Buffer
from aotc_runtime.engines.xla import reading
from aotc_runtime.engines.xla.client import LoadedExecutable, XlaDevice
from aotc_runtime.engines.xla.cpu.calls import Dispatcher
from aotc_runtime.errors import refusal
from aotc_runtime.schema.proof import VerifiedBlob

PLATFORM = "cpu"

DEVICES_MAX = 4096
"""XLA takes seconds to make so many of a processor, and for more the square of their number."""

DLPACK_CPU = 1
"""kDLCPU in dlpack.h."""


class Processor(XlaDevice):
    """This process' processor, as one device or several."""

    platform = PLATFORM
    as_array = staticmethod(np.asarray)

    def make_client(self, xla_client: Any, devices: int) -> Any:
        """jaxlib's client of the processor."""
        return xla_client.make_cpu_client(asynchronous=False, num_devices=devices)

    def prepare(self, xla_client: Any) -> None:
        """Take what the compiled call path needs."""
        self._lapack_ready = False
        self._topology = xla_client.get_topology_for_devices
        self._dispatcher = Dispatcher(self._sharding)

    def direct(
        self,
        executable: LoadedExecutable,
        weights: Sequence[Buffer],
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
    ) -> Callable[..., list[Buffer]] | None:
        """A function that runs in jaxlib's compiled call path, which uses inputs in place; None
        where an input is of numbers that XLA packs.
        """
        if any(reading.is_packed_in_xla(aval.dtype) for aval in inputs):
            return None

        def miss(leaves: Sequence[Any]) -> list[Buffer]:
            buffers = [
                self.put(leaf, aval) if isinstance(leaf, np.ndarray) else leaf
                for leaf, aval in zip(leaves, inputs, strict=True)
            ]
            return self.execute(executable, [*weights, *buffers])

        return self._dispatcher.call(executable, weights, len(inputs), outputs, miss)

    def machine(self) -> tuple[str, str, frozenset[str]]:
        """Triple, processor name and features of this host, in LLVM's spelling."""
        topology = bytes(self._topology(self._client.devices()).serialize())
        # The target machine is a protobuf message {1: triple, 2: cpu, 3: features}.
        match = re.search(rb"\n.((?:x86_64|aarch64)-[a-z0-9_-]+)\x12", topology, re.DOTALL)
        features = re.search(
            rb"\x12.([a-z0-9._-]*)\x1a[\x00-\xff]{1,3}?(\+[-+a-z0-9.,]+)", topology
        )
        if match is None or features is None:
            raise refusal("AOTC-E752", "this host's processor", "none")
        names = features[2].decode().split(",")
        present = frozenset(name[1:] for name in names if name.startswith("+"))
        return match[1].decode(), features[1].decode(), present

    def register_custom_calls(self, targets: Iterable[str]) -> None:
        """Register LAPACK if any of these custom-call targets is in it."""
        if self._lapack_ready or not any(target.startswith("lapack_") for target in targets):
            return
        from jaxlib import lapack

        with self._lock:
            # Without initialize() the registered kernels call null pointers.
            lapack._lapack.initialize()
            for name, function, version in lapack.registrations()["cpu"]:
                self._register(name, function, "cpu", api_version=version)
            self._lapack_ready = True

    def share(self, array: Array, aval: Aval) -> Buffer:
        """Use an array in place if it is aligned to 64 bytes (a copy otherwise); for weights,
        which never change.
        """
        place: Any = aval.placement
        if place is not None:
            return place.share(array, aval, self._share)
        return self._put(
            aval, self._sharding, [array], self._devices, True, False, self._share, True
        )

    def to_numpy(self, buffer: Buffer, aval: Aval) -> Array:
        """A result as numpy: read-only and without a copy, keeping the device buffer alive; a copy
        where `reading.viewed` or `reading.joined` needs one.
        """
        return reading.viewed(buffer, aval) if aval.placement is None else reading.joined(buffer)

    def dlpack_device(self) -> tuple[int, int]:
        """The host's memory."""
        return DLPACK_CPU, 0

    def compile_symbolic(
        self,
        module: VerifiedBlob,
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
        options: Mapping[str, str],
        where: str,
    ) -> LoadedExecutable:
        """Compile a verified module with symbolic dimensions for the shapes of these inputs.

        Takes tens of milliseconds and more, on the calling thread, other Python threads going on
        meanwhile. Raises BackendError (AOTC-E756).
        """
        from aotc_runtime.engines.xla.cpu.symbolic import compiled

        handlers = [self.result_handler(aval) for aval in outputs]
        shapes = [aval.shape for aval in inputs]
        loaded = compiled(
            self._client, self._devices, self.error, bytes(module.data), shapes, options, where
        )
        executable = LoadedExecutable(loaded, handlers)
        # Should another thread load a bundle just now, `compilations` looks again.
        with self._lock:
            self._known[id(loaded)] = executable
        return executable

    def memory_of(self, executable: LoadedExecutable) -> int:
        """Bytes that a call allocates beside its inputs, as XLA says: temporaries, and results that
        take no input's place.
        """
        stats = executable.loaded.get_compiled_memory_stats()
        results = stats.output_size_in_bytes - stats.alias_size_in_bytes
        return int(stats.temp_size_in_bytes + results)
