"""What XLA's devices can do beside loading and calling. Private names of jaxlib beside those of
`xla_client`:

    LoadedExecutable.get_compiled_memory_stats
    _jax: buffer_to_dlpack_managed_tensor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aotc_runtime.engines.device_features import DeviceFeatures, Tiles
from aotc_runtime.engines.engine_device import Aval, Buffer
from aotc_runtime.engines.xla.xla_client import LoadedExecutable, XlaDevice
from aotc_runtime.engines.xla.xla_sharding import MeshPlacement, Placements, executable_tiles

if TYPE_CHECKING:
    from aotc_runtime.schema.bundle_manifest import Mesh, Sharding
    from aotc_runtime.verification.verify_bundle import VerifiedBlob


class XlaFeatures(DeviceFeatures):
    """Donation, DLPack and meshes, on every platform."""

    def __init__(self, device: XlaDevice) -> None:
        super().__init__(device)
        self._xla = device

    @cached_property
    def _placements(self) -> Placements:
        device = self._xla
        return Placements(device._names, device._all_devices, device._put)

    def is_deleted(self, buffer: Buffer) -> bool:
        """Return whether a call that donated the buffer used it up."""
        return bool(buffer.is_deleted())

    def delete(self, buffer: Buffer) -> None:
        """Give the memory of a donated buffer back that XLA could not reuse."""
        buffer.delete()

    def to_dlpack(self, buffer: Buffer) -> Any:
        """Return a DLPack capsule that keeps the buffer alive. Raises BufferError without one."""
        from jaxlib import _jax

        self.dlpack_device()
        return _jax.buffer_to_dlpack_managed_tensor(buffer)

    def dlpack_device(self) -> tuple[int, int]:
        """Return the memory of the first device. Raises BufferError where DLPack knows none."""
        kind = self._xla.dlpack_kind
        return super().dlpack_device() if kind is None else (kind, 0)

    def placement(self, mesh: Mesh, sharding: Sharding, shape: tuple[int, ...]) -> MeshPlacement:
        """Return how arrays of a shape lie on a mesh whose devices there are."""
        return self._placements.placement(mesh, sharding, shape)

    def tiles(
        self, executable: LoadedExecutable
    ) -> tuple[Sequence[Tiles | None], Sequence[Tiles | None]]:
        """Return how an executable's parameters and results lie on its devices, as XLA says."""
        return executable_tiles(self._xla._names, executable.loaded)


class ProcessorFeatures(XlaFeatures):
    """The processor also compiles for the sizes of a call."""

    def compile_symbolic(
        self,
        module: VerifiedBlob,
        inputs: Sequence[Aval],
        outputs: Sequence[Aval],
        options: Mapping[str, str],
        where: str,
    ) -> LoadedExecutable:
        """Compile a verified module with symbolic dimensions for the shapes of these inputs, which
        takes tens of milliseconds and more. Raises BackendError (AOTC-E756).
        """
        from aotc_runtime.engines.xla.xla_symbolic import compiled

        device, shapes = self._xla, [aval.shape for aval in inputs]
        client, devices = device._client, device._devices
        loaded = compiled(client, devices, device.error, module, shapes, options, where)
        executable = LoadedExecutable(loaded, [device.result_handler(aval) for aval in outputs])
        # Should another thread load a bundle just now, `compilations` looks again.
        with device._lock:
            device._known[id(loaded)] = executable
        return executable

    def memory_of(self, executable: LoadedExecutable) -> int:
        """Return the bytes that a call allocates beside its inputs, as XLA says: temporaries, and
        results that take no input's place.
        """
        stats = executable.loaded.get_compiled_memory_stats()
        results = stats.output_size_in_bytes - stats.alias_size_in_bytes
        return int(stats.temp_size_in_bytes + results)
