"""Operators that read between elements: Resize, Upsample, GridSample, AffineGrid."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, add_expanded, operator
from aotc.frontends.onnx.operators.onnx_layout import axes_of

type Taps = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""For each element of a result: indices into an axis, and the weight of each."""


def _linear(ratio: float) -> np.ndarray[Any, Any]:
    return np.array([1 - ratio, ratio])


def _cubic(a: float) -> Callable[[float], np.ndarray[Any, Any]]:
    def weights(ratio: float) -> np.ndarray[Any, Any]:
        apart = np.array([ratio + 1, ratio, 1 - ratio, 2 - ratio])
        return np.asarray(_keys(apart, a))

    return weights


def _keys(x: Any, a: float) -> Any:
    """Return Keys' kernel of cubic convolution: https://doi.org/10.1109/TASSP.1981.1163711."""
    x = np.abs(x)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _nearest(mode: str) -> Callable[[float], np.ndarray[Any, Any]]:
    def weights(ratio: float) -> np.ndarray[Any, Any]:
        if ratio == int(ratio):
            return np.array([0.0, 1.0])
        up = {
            "round_prefer_floor": ratio > 0.5,
            "round_prefer_ceil": ratio >= 0.5,
            "floor": False,
            "ceil": True,
        }[mode]
        return np.array([0.0, 1.0]) if up else np.array([1.0, 0.0])

    return weights


def _antialiased(mode: str, scale: float, a: float) -> Callable[[float], np.ndarray[Any, Any]]:
    """Return a filter that is as much wider as the result is smaller."""
    scale = min(scale, 1.0)
    start = int(math.floor((-1 if mode == "linear" else -2) / scale) + 1)

    def weights(ratio: float) -> np.ndarray[Any, Any]:
        x = scale * (np.arange(start, 2 - start) - ratio)
        taps = np.clip(1 - np.abs(x), 0, 1) if mode == "linear" else _keys(x, a)
        return np.asarray(taps / taps.sum())

    return weights


def _coordinate(call: Call, mode: str, i: float, scale: float, old: int, new: int) -> float:
    """Return where element `i` of a resized axis lies in the input, as Resize's own text has it.

    The reference evaluator of ONNX takes `scale * old` for `length_resized`, which has a fraction;
    the text, ONNX Runtime and PyTorch take the size of the result.
    """
    if mode == "align_corners":
        return 0.0 if new == 1 else i * (old - 1) / (new - 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "pytorch_half_pixel":
        return 0.0 if new == 1 else (i + 0.5) / scale - 0.5
    if mode == "half_pixel":
        return (i + 0.5) / scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    return call.lacks(f"the coordinate_transformation_mode {mode!r}")


def _taps(
    call: Call,
    weights: Callable[[float], np.ndarray[Any, Any]],
    transform: str,
    old: int,
    new: int,
    scale: float,
    exclude: bool,
) -> Taps:
    """Return the taps of an axis."""
    if call.attribute("mode") == "nearest":
        # Which element is the nearest one hangs on how this is rounded; runtimes do so.
        scale = np.float32(scale)  # type: ignore[assignment]
    indices, shares = [], []
    for i in range(new):
        at = _coordinate(call, transform, type(scale)(i), scale, old, new)
        ratio = 1.0 if at == int(at) else at - math.floor(at)
        coefficients = weights(ratio)
        count = len(coefficients)
        # the reference's neighbours: as many on either side, of which a whole number has one less
        low = math.ceil(at) - 1 if at == int(at) else math.floor(at)
        places = np.arange(low - (count // 2 - 1), low - (count // 2 - 1) + count)
        if exclude:
            coefficients = np.where((places < 0) | (places >= old), 0, coefficients)
            coefficients = coefficients / coefficients.sum()
        indices.append(np.clip(places, 0, old - 1))
        shares.append(coefficients)
    return np.array(indices, np.int32), np.array(shares)


def _applied(x: Any, axis: int, taps: Taps) -> Any:
    """Return an axis by its taps: those whose weights are all 0 cost nothing."""
    indices, shares = taps
    shape = [1] * x.ndim
    shape[axis] = -1
    total: Any = None
    if ((shares == 0) | (shares == 1)).all():
        chosen = indices[np.arange(len(indices)), shares.argmax(1)]
        times, rest = divmod(len(chosen), x.shape[axis])
        if not rest and (chosen == np.arange(len(chosen)) // max(times, 1)).all():
            return jnp.repeat(x, times, axis)
        return jnp.take(x, jnp.asarray(chosen), axis)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    for tap in range(shares.shape[1]):
        if not shares[:, tap].any():
            continue
        weight = jnp.asarray(shares[:, tap], wide.dtype).reshape(shape)
        part = jnp.take(wide, jnp.asarray(indices[:, tap]), axis) * weight
        total = part if total is None else total + part
    return total


LARGEST_AXIS = 1 << 16
"""The most elements of an axis that Resize makes: its taps are computed while tracing."""


def _resized(
    call: Call, x: Any, axes: Sequence[int], new: Sequence[int], scales: Sequence[float]
) -> Any:
    mode = call.attribute("mode")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    transform = call.attribute("coordinate_transformation_mode", "asymmetric")
    nearest = call.attribute("nearest_mode")
    a = call.attribute("cubic_coeff_a", -0.75)
    exclude = bool(call.attribute("exclude_outside", 0))
    antialias = bool(call.attribute("antialias", 0))
    dtype = x.dtype
    for axis, size, scale in zip(axes, new, scales, strict=True):
        old = x.shape[axis]
        if size == old and scale == 1:
            continue
        if size > LARGEST_AXIS or old > LARGEST_AXIS:
            call.lacks(f"an axis of more than {LARGEST_AXIS} elements")
        if mode == "nearest":
            # before version 11 no mode is stated: the standard's tests and onnxruntime take the
            # next element where an axis shrinks
            weights = _nearest(nearest or ("ceil" if scale < 1 else "floor"))
        elif antialias:
            weights = _antialiased(mode, scale, a)
        else:
            weights = _linear if mode == "linear" else _cubic(a)
        taps = _taps(call, weights, transform, old, size, scale, exclude)
        call.is_small([size if i == axis else n for i, n in enumerate(x.shape)])
        x = _applied(x, axis, taps)
    if jnp.issubdtype(dtype, jnp.integer) and not jnp.issubdtype(x.dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        x = jnp.clip(jnp.rint(x) if mode != "nearest" else x, info.min, info.max)
    return x.astype(dtype)


@operator("Resize", deciding=(1, 2, 3))
def resize(
    call: Call, x: Value, roi: Value = None, scales: Value = None, sizes: Value = None
) -> Value:
    x = call.to_jax(x)
    if call.version < 11:
        scales = roi
    axes = list(axes_of(call, None, x.ndim) or range(x.ndim))
    old: list[Any] = [x.shape[axis] for axis in axes]
    if scales is not None and call.concrete(scales, "scales").size:
        factors = [float(f) for f in call.concrete(scales, "scales").reshape(-1)]
        if len(factors) != len(axes) or not all(0 < f < math.inf for f in factors):
            call.refuse(f"the scales {factors}")
        axes, factors, old = _scaled(call, x, axes, factors)
        # in float32, as ONNX's shape inference has it: 10 times 0.7 is 7 there, and less in float64
        new = [int(np.float32(size) * np.float32(f)) for size, f in zip(old, factors, strict=True)]
    elif sizes is not None:
        stated = call.ints(sizes, "sizes")
        if len(stated) != len(axes):
            call.refuse(f"the sizes {list(stated)}")
        same = [i for i, size in enumerate(old) if not isinstance(size, int) and size == stated[i]]
        axes = [axis for i, axis in enumerate(axes) if i not in same]
        stated = tuple(size for i, size in enumerate(stated) if i not in same)
        old = [size for i, size in enumerate(old) if i not in same]
        _require_numbers(call, [*old, *stated])
        factors = [goal / size for goal, size in zip(stated, old, strict=True)]
        policy = call.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            call.lacks(f"the keep_aspect_ratio_policy {policy!r}")
        new = list(stated)
    else:
        call.refuse("neither scales nor sizes")
    return _resized(call, x, axes, new, factors)


def _scaled(
    call: Call, x: Any, axes: Sequence[int], factors: Sequence[float]
) -> tuple[list[int], list[float], list[Any]]:
    """Return the axes that are scaled, with factors and sizes; symbolic ones may keep theirs."""
    moved = [
        (axis, factor, x.shape[axis])
        for axis, factor in zip(axes, factors, strict=True)
        if factor != 1 or isinstance(x.shape[axis], int)
    ]
    _require_numbers(call, [size for *_, size in moved])
    return [m[0] for m in moved], [m[1] for m in moved], [m[2] for m in moved]


def _require_numbers(call: Call, dimensions: Sequence[Any]) -> None:
    if not all(isinstance(size, int) for size in dimensions):
        call.lacks("a resized axis of symbolic size")
    if min(dimensions, default=1) < 1:
        call.refuse(f"the sizes {list(dimensions)}")


@operator("Upsample", deciding=(1,))
def upsample(call: Call, x: Value, scales: Value = None) -> Value:
    x = call.to_jax(x)
    stated = (
        call.attribute("scales") if scales is None else call.concrete(scales, "scales").tolist()
    )
    axes, factors, old = _scaled(call, x, range(x.ndim), [float(each) for each in stated])
    new = [math.floor(size * f) for size, f in zip(old, factors, strict=True)]
    return _resized(call, x, axes, new, factors)


add_expanded("AffineGrid", deciding=(1,))


def _reflected(at: Any, low: float, high: float) -> Any:
    span = high - low
    if span <= 0:
        return jnp.zeros_like(at)
    distance = jnp.abs(at - low)
    times, rest = jnp.floor(distance / span), jnp.mod(distance, span)
    return jnp.where(jnp.mod(times, 2) == 0, rest + low, high - rest)


@operator("GridSample")
def grid_sample(call: Call, x: Value, grid: Value) -> Value:
    x, grid = call.to_jax(x), call.to_jax(grid)
    mode, padding = call.attribute("mode"), call.attribute("padding_mode")
    if mode in ("cubic", "bicubic"):
        call.lacks(f"the mode {mode!r}")
    corners, is_nearest = bool(call.attribute("align_corners")), mode == "nearest"
    space = x.shape[2:]
    wide = jnp.promote_types(grid.dtype, jnp.float32)

    def place(axis: int, size: int) -> Any:
        at = grid[..., len(space) - 1 - axis].astype(wide)
        at = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        if padding == "reflection":
            low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
            at = _reflected(at, low, high)
        at = jnp.clip(at, -1, size) if padding == "zeros" else jnp.clip(at, 0, size - 1)
        return jnp.rint(at) if is_nearest else at

    def sample(channel: Any, places: list[Any]) -> Any:
        return map_coordinates(channel, places, order=0 if is_nearest else 1)

    given = x if is_nearest else x.astype(jnp.promote_types(x.dtype, jnp.float32))
    places = [place(axis, size) for axis, size in enumerate(space)]
    return jax.vmap(jax.vmap(sample, (0, None)))(given, places).astype(x.dtype)
