"""Arrays and executables on a device, as every engine takes and returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np

    from aotc_runtime.verification.verify_bundle import VerifiedBlob

type Array = np.ndarray[Any, Any]

type Buffer = Any
"""An array on a device, never a numpy array; only its engine reads it."""

type Executable = Any
"""An engine's object for verified bytes. It frees its memory when nothing refers to it."""


class Aval(Struct, frozen=True):
    """Shape and dtype of an array on a device.

    XLA reads these objects as they are, and asks for `weak_type`, which is never set. Without a
    placement, of `device_features.Placement`, the array is on the first device.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False
    placement: Any = None


class Stored(Struct, frozen=True):
    """A verified executable that is not loaded yet.

    Attributes:
        outputs: Shapes and dtypes of its results, in order.
        where: Its name in errors.
    """

    blob: VerifiedBlob
    outputs: Sequence[Aval]
    where: str
