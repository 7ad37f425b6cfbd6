"""Arrays and executables on a device, as every engine takes and returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np

    from aotc_runtime.verification.verify_bundle import VerifiedBlob

type Array = np.ndarray[Any, Any]

type Buffer = Any
"""An array on a device, never a numpy array; only its engine reads it."""

type Executable = Any
"""An engine's object for verified bytes. It frees its memory when nothing refers to it."""

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


class Aval(Struct, frozen=True):
    """Shape and dtype of an array on a device.

    XLA reads these objects as they are, and asks for `weak_type`, which is never set. Without a
    placement the array is on the first device.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False
    placement: Placement | None = None


class Stored(Struct, frozen=True):
    """A verified executable that is not loaded yet.

    Attributes:
        outputs: Shapes and dtypes of its results, in order.
        where: Its name in errors.
    """

    blob: VerifiedBlob
    outputs: Sequence[Aval]
    where: str
