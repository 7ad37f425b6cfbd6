"""Convolutions and pooling: operators that move a window over the axes of space."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import core, lax

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, operator


@dataclass(frozen=True, slots=True)
class Window:
    """The geometry of a sliding window.

    `pads` are before and after each axis, as in the file or from auto_pad; `extra` is added after
    each axis by ceil_mode, and not counted.
    """

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[Any, Any], ...]
    extra: tuple[Any, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """The elements from the first to the last of a window."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.size, self.dilations, strict=True))


def window_of(call: Call, space: Sequence[Any], size: Sequence[int]) -> Window:
    """Return the window of a node over axes of these sizes."""
    dims = len(space)
    size = tuple(size)
    strides = tuple(call.attribute("strides") or (1,) * dims)
    dilations = tuple(call.attribute("dilations") or (1,) * dims)
    stated = tuple(call.attribute("pads") or (0,) * (2 * dims))
    if not len(size) == len(strides) == len(dilations) == dims == len(stated) / 2:
        call.refuse("kernel_shape, strides, dilations or pads of another rank than the input")
    if min(*size, *strides, *dilations, 1) < 1 or min(stated, default=0) < 0:
        call.refuse("a kernel, stride or dilation below 1, or a pad below 0")
    reach = tuple((k - 1) * d + 1 for k, d in zip(size, dilations, strict=True))
    auto = call.attribute("auto_pad")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = []
        for length, wide, step in zip(space, reach, strides, strict=True):
            count = -(-length // step)
            total = core.max_dim((count - 1) * step + wide - length, 0)
            less = total // 2
            pads.append((less, total - less) if auto == "SAME_UPPER" else (total - less, less))
        return Window(size, strides, dilations, tuple(pads), (0,) * dims)
    if auto == "VALID":
        stated = (0,) * (2 * dims)
    both = tuple(zip(stated[:dims], stated[dims:], strict=True))
    extra: list[Any] = [0] * dims
    if call.attribute("ceil_mode", 0):
        for axis, (length, wide, step) in enumerate(zip(space, reach, strides, strict=True)):
            low, high = both[axis]
            room = length + low + high - wide
            count = -(-room // step) + 1
            # A window begins in the array, or in the padding before it.
            count = core.min_dim(count, -(-(length + low) // step))
            extra[axis] = core.max_dim((count - 1) * step - room, 0)
    return Window(size, strides, dilations, both, tuple(extra))


def convolved(call: Call, x: Any, w: Any, window: Window, dtype: Any = None) -> Any:
    """Convolve (batch, channels, space) with (features, channels of a group, window)."""
    pads = window.pads
    if not all(map(_plain, pads)):  # which convolutions do not take
        zero = jnp.zeros((), x.dtype)
        x = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in pads)])
        pads = ((0, 0),) * (x.ndim - 2)
    return lax.conv_general_dilated(
        x,
        w,
        window.strides,
        pads,
        rhs_dilation=window.dilations,
        feature_group_count=call.attribute("group"),
        preferred_element_type=dtype,
    )


def _along_channels(value: Any, rank: int) -> Any:
    return value.reshape((1, -1) + (1,) * (rank - 2))


@operator("Conv")
def conv(call: Call, x: Value, w: Value, bias: Value = None) -> Value:
    x, w = call.to_jax(x), call.to_jax(w)
    window = window_of(call, x.shape[2:], call.attribute("kernel_shape") or w.shape[2:])
    result = convolved(call, x, w, window)
    return result if bias is None else result + _along_channels(call.to_jax(bias), x.ndim)


@operator("ConvTranspose")
def conv_transpose(call: Call, x: Value, w: Value, bias: Value = None) -> Value:
    x, w = call.to_jax(x), call.to_jax(w)
    dims, groups = x.ndim - 2, call.attribute("group")
    size = tuple(w.shape[2:])
    strides = tuple(call.attribute("strides") or (1,) * dims)
    dilations = tuple(call.attribute("dilations") or (1,) * dims)
    added = tuple(call.attribute("output_padding") or (0,) * dims)
    stated = tuple(call.attribute("pads") or (0,) * (2 * dims))
    reach = tuple((k - 1) * d + 1 for k, d in zip(size, dilations, strict=True))
    wanted, auto = call.attribute("output_shape"), call.attribute("auto_pad")
    pads = []
    for axis in range(dims):
        full = (x.shape[2 + axis] - 1) * strides[axis] + added[axis] + reach[axis]
        low, high = stated[axis], stated[axis + dims]
        if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
            goal = x.shape[2 + axis] * strides[axis] if wanted is None else wanted[-dims:][axis]
            total = full - goal
            total = max(total, 0) if isinstance(total, int) and wanted is None else total
            less = total // 2
            low, high = (less, total - less) if auto == "SAME_UPPER" else (total - less, less)
        elif auto == "VALID":
            low = high = 0
        pads.append((reach[axis] - 1 - low, reach[axis] - 1 - high + added[axis]))
    channels, each = w.shape[:2]
    w = w.reshape(groups, channels // groups, each, *size)
    w = jnp.swapaxes(w, 1, 2).reshape(groups * each, channels // groups, *size)
    w = jnp.flip(w, tuple(range(2, 2 + dims)))
    call.is_small([math.prod(x.shape[:2]), *(sum(map(abs, pad)) for pad in pads if _plain(pad))])
    result = lax.conv_general_dilated(
        x,
        w,
        (1,) * dims,
        pads,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        feature_group_count=groups,
    )
    return result if bias is None else result + _along_channels(call.to_jax(bias), x.ndim)


def _plain(pad: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for size in pad)


def reduced(x: Any, initial: Any, combine: Any, window: Window, *, extra: bool = True) -> Any:
    """Reduce windows over the axes of space to one element each.

    With `extra`, the padding of ceil_mode is added here; otherwise the array has it already.
    """
    pads = [(0, 0), (0, 0)]
    for (low, high), more in zip(window.pads, window.extra, strict=True):
        pads.append((low, high + more) if extra else (0, 0))
    return lax.reduce_window(
        x,
        initial,
        combine,
        (1, 1, *window.size),
        (1, 1, *window.strides),
        pads,
        window_dilation=(1, 1, *window.dilations),
    )


def _least(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.integer):
        return np.asarray(jnp.iinfo(dtype).min, dtype)
    return np.asarray(-np.inf, dtype)


@operator("MaxPool")
def max_pool(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    window = window_of(call, x.shape[2:], call.attribute("kernel_shape"))
    if call.is_wanted(1):
        call.lacks("MaxPool with its second output, the indices")
    return reduced(x, _least(x.dtype), lax.max, window)


@operator("AveragePool")
def average_pool(call: Call, x: Value) -> Value:
    x = call.to_jax(x)
    window = window_of(call, x.shape[2:], call.attribute("kernel_shape"))
    zero = np.zeros((), x.dtype)
    total = reduced(x, zero, lax.add, window)
    inside = [size for size in window.pads if size != (0, 0)]
    if not inside and all(isinstance(size, int) and size == 0 for size in window.extra):
        return total / jnp.asarray(math.prod(window.size), x.dtype)
    counted = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
    pads = [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in window.pads)]
    edge = jnp.asarray(1 if call.attribute("count_include_pad", 0) else 0, x.dtype)
    counted = lax.pad(counted, edge, pads)
    more = [(0, 0, 0), (0, 0, 0), *((0, size, 0) for size in window.extra)]
    counted = lax.pad(counted, jnp.zeros((), x.dtype), more)
    return total / reduced(counted, zero, lax.add, window, extra=False)


def _global(call: Call, x: Value, *, reduce: Callable[..., Any]) -> Value:
    x = call.to_jax(x)
    return reduce(x, tuple(range(2, x.ndim)), keepdims=True)


operator("GlobalAveragePool")(partial(_global, reduce=jnp.mean))
operator("GlobalMaxPool")(partial(_global, reduce=jnp.max))
