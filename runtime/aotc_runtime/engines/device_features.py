"""Features that only some engines have: donation, DLPack, several devices, compiling.

Imported for the first bundle or call that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.engines.engine_arrays import Array, Aval, Buffer, Executable

if TYPE_CHECKING:
    from aotc_runtime.schema.bundle_manifest import Mesh, Sharding
    from aotc_runtime.verification.verify_bundle import VerifiedBlob


type Tiles = tuple[tuple[int, ...], ...]
"""For each device, the position of its shard along each axis; () for each if all hold the whole
array.
"""

type ExecutableTiles = tuple[Sequence[Tiles | None], Sequence[Tiles | None]]
"""Tiles of an executable's parameters and of its results; None for any other sharding."""


class Placement(Protocol):
    """Placement of arrays of one shape on several devices.

    A device has one object for each placement, so they are compared by identity.
    """

    @property
    def tiles(self) -> Tiles:
        """Return the tiles that an executable must state for such an array."""


class SymbolicModule(Struct, frozen=True):
    """A verified StableHLO module with symbolic dimensions, and what to compile it for.

    Attributes:
        inputs, outputs: Shapes and dtypes of the arguments and results of one call.
        options: Compiler options by name.
        where: Its name in errors.
    """

    blob: VerifiedBlob
    inputs: Sequence[Aval]
    outputs: Sequence[Aval]
    options: Mapping[str, str]
    where: str


class DeviceFeatures:
    """Optional operations of a device, as an engine without any of them answers.

    An engine that has some returns a subclass from `Device.features`.
    """

    def __init__(self, engine: str, platform: str) -> None:
        self._engine = engine
        self._platform = platform

    def is_deleted(self, buffer: Buffer) -> bool:
        """Return whether a call that donated the buffer used it up."""
        return False

    def delete(self, buffer: Buffer) -> None:
        """Release the memory of a donated buffer that the call could not reuse.

        By default, it is released with the last reference.
        """
        del buffer

    def to_dlpack(self, buffer: Buffer) -> Any:
        """Return a DLPack capsule that keeps the buffer alive. Raises BufferError without one."""
        raise BufferError(f"arrays of {self._engine} cannot be handed on by DLPack")

    def dlpack_device(self) -> tuple[int, int]:
        """Return where buffers lie: kind and number as in dlpack.h. Raises BufferError."""
        raise BufferError(f"arrays of {self._engine} cannot be handed on by DLPack")

    def placement(self, mesh: Mesh, sharding: Sharding, shape: tuple[int, ...]) -> Placement:
        """Return how arrays of a shape lie on a mesh whose devices there are.

        Called only for engines whose facts state several devices.
        """
        raise NotImplementedError(f"{self._engine} has one device")

    def tiles(self, executable: Executable) -> ExecutableTiles:
        """Return how parameters and results lie on the devices, by the engine itself.

        Called if `placement` is set.
        """
        raise NotImplementedError(f"{self._engine} has one device")

    def compile_symbolic(self, module: SymbolicModule) -> Executable:
        """Compile a module for the shapes of one call.

        Runs on the calling thread; other Python threads go on meanwhile.

        Raises:
            BackendError: AOTC-E756, as it does by default.
        """
        from aotc_runtime.engines.engine_options import only_profiles

        raise only_profiles(module.where, self._platform)

    def memory_of(self, executable: Executable) -> int:
        """Return the bytes that a call of an executable allocates beside its inputs.

        The executable was compiled in this process.
        """
        raise NotImplementedError(f"{self._engine} compiles nothing here")


def align(array: Array, alignment: int) -> Array:
    """Return an array that begins at a multiple of so many bytes: itself, or a packed copy."""
    if array.flags.c_contiguous and array.ctypes.data % alignment == 0:
        return array
    memory = np.empty(array.nbytes + alignment, np.uint8)
    begin = -memory.ctypes.data % alignment
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def check_tiles(
    tiles: ExecutableTiles, arguments: Sequence[Aval], outputs: Sequence[Aval], where: str
) -> None:
    """Compare every parameter and result of an executable with the bundle's placements.

    XLA compares sizes in bytes only: shards of another axis with the same number of bytes would run
    and give wrong results. `tiles` are those of parameters and results, as the engine states them.

    Raises:
        BackendError: AOTC-E757, for another placement.
    """
    parameters, results = tiles
    for what, wanted, found in (("parameter", arguments, parameters), ("result", outputs, results)):
        if len(wanted) != len(found):
            raise _refusal(where, f"{len(wanted)} {what}s", f"{len(found)}")
        for index, (aval, has) in enumerate(zip(wanted, found, strict=True)):
            assert aval.placement is not None, "made with the mesh"
            if aval.placement.tiles != has:
                raise _refusal(
                    where,
                    f"{what} {index} in tiles {aval.placement.tiles}",
                    "another sharding" if has is None else f"tiles {has}",
                )


def _refusal(where: str, expected: str, found: str) -> AotcError:
    return refusal("AOTC-E757", where, found, expected=expected)
