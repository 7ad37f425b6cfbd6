"""The common parts of accelerators: memory of their own, and no compilation."""

import importlib.util
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer
from aotc_runtime.engines.xla.xla_client import LoadedExecutable, XlaDevice
from aotc_runtime.engines.xla.xla_features import XlaFeatures
from aotc_runtime.engines.xla.xla_reader import copy_buffer, join_shards


class Accelerated(XlaDevice):
    """Devices of a plugin. Arrays are copied to them and back; nothing is shared."""

    as_array = staticmethod(copy_buffer)
    repeats_exactly = False  # atomic additions of scatters

    @cached_property
    def features(self) -> XlaFeatures:
        """Return the optional features."""
        return XlaFeatures(self)

    def execute(self, executable: LoadedExecutable, arguments: list[Buffer]) -> list[Buffer]:
        """Run, and wait for the results."""
        results = super().execute(executable, arguments)
        for buffer in results:
            buffer.block_until_ready()
        return results

    def begin_reads(self, buffers: list[Buffer]) -> None:
        """Begin to copy results of one device to the host, all at once.

        Only those that are read: with jaxlib 0.11.2, a process ends by an abort if a copy of a
        result that it keeps was begun and never read.
        """
        for buffer in buffers:
            if buffer._sharding is self._sharding:
                buffer._copy_single_device_array_to_host_async()

    def to_numpy(self, buffer: Buffer, aval: Aval) -> Array:
        """Return a copy on the host."""
        return copy_buffer(buffer) if aval.placement is None else join_shards(buffer)


def version_of(package: str) -> str:
    """Return the version of an installed package; "" if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def library_of(package: str, file: str) -> Path:
    """Return a file of an installed package. Raises ImportError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"no package {package}")
    return Path(spec.origin).parent / file


def start_plugin(xla_client: Any, platform: str, library: str) -> None:
    """Load and initialize a plugin, unless jax has done so in this process."""
    if not xla_client.pjrt_plugin_loaded(platform):
        xla_client.load_pjrt_plugin_dynamically(platform, library)
    if not xla_client.pjrt_plugin_initialized(platform):
        xla_client.initialize_pjrt_plugin(platform)
