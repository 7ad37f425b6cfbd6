"""Arrays that calls accept, and arrays that stay on the device between calls."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.suggestions import with_article
from aotc_runtime.engines.engine_arrays import Aval, Buffer
from aotc_runtime.engines.engine_device import Device

Array = np.ndarray[Any, Any]


class DeviceArray:
    """A result that stays on the device; pass it to any call of any bundle without a copy.

    `np.asarray(x)` copies it to the host. A call that donates it uses it up: touching it again
    raises ShapeError (AOTC-E631). Views that DLPack gave of it stay valid.
    """

    __slots__ = ("_aval", "_buffer", "_is_viewed", "_lock", "_used_by", "device")

    def __init__(self, device: Device, buffer: Buffer, aval: Aval) -> None:
        self.device = device
        self._buffer = buffer
        self._aval = aval
        self._used_by = ""
        # Nobody tells when a view ends, so this stays.
        self._is_viewed = False
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self._aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The array's dtype."""
        return self._aval.dtype

    @property
    def placement(self) -> Any:
        """The sharding over several devices; None for an array on one device."""
        return self._aval.placement

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._aval.shape)

    @property
    def is_deleted(self) -> bool:
        """Return whether a call has used the array up."""
        return bool(self._used_by)

    def buffer(self) -> Buffer:
        """Return the device buffer. Raises ShapeError (AOTC-E631) if it was used up."""
        # Read first: a call that uses the array up says so before it lets go of the buffer.
        buffer = self._buffer
        if self._used_by:
            raise refusal(
                "AOTC-E631", f"{self.dtype.name}{list(self.shape)}", f"donated to {self._used_by}"
            )
        return buffer

    def claim(self, by: str) -> None:
        """Reserve the array for a call that donates it, after its readers have finished.

        Raises ShapeError (AOTC-E631) if another call has it.
        """
        with self._lock:
            self.buffer()
            self._used_by = by

    def take_buffer(self) -> Buffer:
        """Return the device buffer, for the call that claimed it, which may donate it.

        Views keep what they see, so an array that has any goes on with a copy.
        """
        if self._is_viewed:
            seen = self.device.to_numpy(self._buffer, self._aval)
            self._buffer = self.device.put(seen, self._aval)
            self._is_viewed = False
        return self._buffer

    def read_claimed(self) -> Array:
        """Return a copy on the host, for the call that claimed it."""
        with self._lock:
            return np.array(self.device.to_numpy(self._buffer, self._aval))

    def give_back(self) -> None:
        """End the claim of a failed call.

        The array is usable again, unless the engine has deleted it.
        """
        if self._buffer is not None and not self.device.features.is_deleted(self._buffer):
            self._used_by = ""

    def delete(self) -> None:
        """Delete the buffer after the call that claimed it, if XLA could not reuse it.

        XLA ends the process if a buffer is deleted under a view, so it goes with the last of them.
        """
        if self._is_viewed:
            self._buffer, self._is_viewed = None, False
        elif self._buffer is not None and not self.device.features.is_deleted(self._buffer):
            self.device.features.delete(self._buffer)

    def __dlpack__(self, **_: Any) -> Any:
        """Export the array without a copy, for jax, torch and others.

        A view stays valid when a call uses the array up. Raises ShapeError: AOTC-E631, or E634 for
        an array on several devices.
        """
        if self._aval.placement is not None:
            found = f"an array on {len(self._aval.placement.tiles)} devices"
            raise refusal("AOTC-E634", f"{self.dtype.name}{list(self.shape)}", found)
        # A call that donates the array either finds it viewed, or leaves nothing to view.
        with self._lock:
            capsule = self.device.features.to_dlpack(self.buffer())
            self._is_viewed = True
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.features.dlpack_device()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a DeviceArray cannot be read without a copy")
        with self._lock:
            array = np.array(self.device.to_numpy(self.buffer(), self._aval))
        return array if dtype is None else array.astype(dtype)

    def __copy__(self) -> DeviceArray:
        """Return the array itself.

        It is immutable, and a copied handle would not see a donation.
        """
        return self

    def __deepcopy__(self, _: Any) -> DeviceArray:
        return self

    def __repr__(self) -> str:
        state = f", used up by {self._used_by}" if self._used_by else ""
        return f"DeviceArray({self.dtype.name}{list(self.shape)}{state})"


def as_array(value: Any, dtype: np.dtype[Any], scalar: bool, where: str) -> Array:
    """Return a C-contiguous, native-endian numpy array of exactly this dtype.

    Accepted: numpy arrays and scalars in any byte order and layout, objects with `__array__` such
    as jax arrays, and for a 0-d input (`scalar`) Python numbers that the dtype can hold. Nothing is
    cast between dtypes. Raises ShapeError: AOTC-E605 not an array, or a masked one, whose mask
    would be lost, E606 another dtype.
    """
    if scalar and type(value) in (bool, int, float, complex):
        return _from_number(value, dtype, where)
    is_array = isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__")
    if not is_array or hasattr(value, "mask"):
        raise _no_array(dtype, value, "", where)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise _no_array(dtype, value, f" ({error})", where) from error
    if array.dtype != dtype:
        if array.dtype.newbyteorder("=") != dtype:
            raise _wrong_dtype(array, dtype, where)
        array = array.astype(dtype)
    if not array.flags.c_contiguous:
        array = np.array(array, order="C")
    return array


def _from_number(value: complex, dtype: np.dtype[Any], where: str) -> Array:
    ranks = {bool: 0, int: 1, float: 2, complex: 3}
    kinds = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
    given, wanted = ranks[type(value)], kinds[dtype.kind]
    if dtype.name in ("int4", "uint4"):
        wanted = ranks[int]
    if given > wanted or (given == 0) != (wanted == 0):
        raise _wrong_number(f"the Python {type(value).__name__} {value!r}", dtype, where)
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype)
            # ml_dtypes wraps integers of 4 bits, and not all of its floats have an infinity.
            is_held = given != 1 or (int(array) if wanted == 1 else complex(array)) == value
            if not np.isfinite(array):
                is_held &= not np.isfinite(value) and bool(np.isinf(array) == np.isinf(value))
    except (OverflowError, TypeError):
        # TypeError: from ml_dtypes and isfinite, for integers beyond any float.
        is_held = False
    if not is_held:
        shown = "a larger number" if isinstance(value, int) and abs(value) >= 1e30 else repr(value)
        raise _wrong_number(shown, dtype, where)
    return array


def _no_array(dtype: np.dtype[Any], value: object, more: str, where: str) -> AotcError:
    is_masked = hasattr(value, "mask")
    made = "value.filled(number)" if is_masked else f"np.asarray(value, {_dtype_name(dtype)})"
    found, expected = with_article(type(value).__name__) + more, f"{with_article(dtype.name)} array"
    return refusal("AOTC-E605", where, found, expected=expected, hint=f"pass `{made}`")


def _wrong_dtype(array: Array, dtype: np.dtype[Any], where: str) -> AotcError:
    # numpy.save keeps no more than the width of types that are not numpy's own.
    is_same_bits = array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize
    hint = f"convert the array: `x.{'view' if is_same_bits else 'astype'}({_dtype_name(dtype)})`"
    return refusal("AOTC-E606", where, array.dtype.name, expected=dtype.name, hint=hint)


def _wrong_number(found: str, dtype: np.dtype[Any], where: str) -> AotcError:
    cause = "number-does-not-fit-the-dtype"
    return refusal("AOTC-E606", where, found, cause=cause, expected=dtype.name)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    """Return a dtype as a program names it."""
    return f"{'np' if hasattr(np, dtype.name) else 'ml_dtypes'}.{dtype.name}"
