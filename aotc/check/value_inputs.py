"""Inputs of value trials: numbers that fixtures drawn from N(0, 1) do not have.

`trial_inputs` is a pure function of the leaves and a seed, in numpy alone: the same arguments give
the same bytes. Every number is one that a caller may pass: within the leaf's bounds where it has
some; of an integer without bounds one of the fixture's.

Kinds, each for one call:
    other: every element differs from the fixture's; booleans are negated.
    nan, infinite: NaN, or infinities of both signs, among ordinary numbers.
    extreme: zeros of both signs, the largest and the smallest normal numbers, a row of zeros,
        integers at the ends of their bounds, booleans that are all false.
    offset: one sign, far from zero; integers of the upper half, booleans that are all true.
    magnitudes: both signs and many magnitudes, and numbers close to the program's own constants;
        integers of the lower half.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from msgspec import Struct

type Array = np.ndarray[Any, Any]

OTHER, NAN, INFINITE, EXTREME = "other", "nan", "infinite", "extreme"
OFFSET, MAGNITUDES = "offset", "magnitudes"

KINDS = (OTHER, NAN, INFINITE, EXTREME, OFFSET, MAGNITUDES)
"""All kinds, in the order of their calls."""

SPECIAL = (NAN, INFINITE, EXTREME)
"""Kinds with special values, which an entry point with `numerics = "finite"` does not promise."""

FAR = 1000.0
"""The offset of numbers that have no bounds."""

DECADES = 4
"""Magnitudes reach from 10**-DECADES to 10**DECADES."""

ROW_SCALES = (1e-4, 1e-8, 1e4, 1e-2)
"""Magnitudes of whole rows, in turn: around the epsilons of norms, far above and far below."""

ORDINARY_PER_SPECIAL = 16
"""Number of ordinary elements for each special value in rows that hold these."""

ANCHORS_MAX = 4
"""Constants of the program that numbers are drawn close to: the largest."""


class TrialLeaf(Struct, frozen=True):
    """An input leaf.

    Attributes:
        path: The path of the leaf.
        dtype: Its dtype; for random keys, the dtype of their data.
        shape: Its shape; for random keys, the shape of their data.
        bounds: Inclusive bounds of the numbers; None for all numbers of the dtype.
        sample: Numbers that a caller passes, of the same shape, such as the fixture's; without them
            ordinary numbers are generated. Integers with a sample and without bounds are the
            sample's in another order.
        is_key: Whether these are data of random keys, for which any bits are valid.
        is_fixed: Whether every trial passes the sample, such as a mask that the loader passes.
    """

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bounds: tuple[float, float] | None = None
    sample: Array | None = None
    is_key: bool = False
    is_fixed: bool = False


def trial_inputs(
    kind: str, leaves: Sequence[TrialLeaf], anchors: Sequence[Array] = (), seed: int = 0
) -> list[Array]:
    """Return the inputs of a trial of one of KINDS, in the order of the leaves.

    `anchors` are constants of the program (weights, literals), for numbers close to them: that
    shows where an executable moves constants through sums and products. Another seed gives other
    numbers.
    """
    has_arrays = any(_is_float(leaf.dtype) and np.prod(leaf.shape) > 1 for leaf in leaves)
    made = []
    for leaf in leaves:
        generator = np.random.default_rng([seed, zlib.crc32(f"{kind} {leaf.path}".encode())])
        made.append(_made(kind, leaf, anchors, generator, keeps_scalars=has_arrays))
    return made


def _made(
    kind: str,
    leaf: TrialLeaf,
    anchors: Sequence[Array],
    generator: np.random.Generator,
    *,
    keeps_scalars: bool,
) -> Array:
    if leaf.is_fixed and leaf.sample is not None:
        return leaf.sample
    if 0 in leaf.shape:
        return np.zeros(leaf.shape, leaf.dtype)
    if leaf.is_key:
        if leaf.sample is not None:
            return np.asarray(~leaf.sample)
        return generator.integers(0, 1 << 32, leaf.shape, np.uint32)
    if leaf.dtype == np.bool_:
        return _booleans(kind, leaf, generator)
    if not _is_float(leaf.dtype):
        return _integers(kind, leaf, generator)
    if leaf.dtype.kind == "c":
        # The imaginary part of a bounded input is drawn from N(0, 1), as in fixtures.
        real, imaginary = _part(leaf, "real", leaf.bounds), _part(leaf, "imag", None)
        made = np.empty(leaf.shape, leaf.dtype)
        made.real = _floats(kind, real, anchors, generator, keeps_scalars=keeps_scalars)
        made.imag = _floats(kind, imaginary, anchors, generator, keeps_scalars=keeps_scalars)
        return made
    return _floats(kind, leaf, anchors, generator, keeps_scalars=keeps_scalars)


def _part(leaf: TrialLeaf, part: str, bounds: tuple[float, float] | None) -> TrialLeaf:
    dtype = np.dtype(np.float32 if leaf.dtype.itemsize == 8 else np.float64)
    sample = None if leaf.sample is None else np.ascontiguousarray(getattr(leaf.sample, part))
    return TrialLeaf(leaf.path, dtype, leaf.shape, bounds, sample)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def _booleans(kind: str, leaf: TrialLeaf, generator: np.random.Generator) -> Array:
    if kind == OFFSET:
        return np.ones(leaf.shape, np.bool_)
    if kind == OTHER and leaf.sample is not None:
        return np.asarray(~leaf.sample)
    mixed = generator.integers(0, 2, leaf.shape).astype(np.bool_)
    if kind != EXTREME:
        return mixed
    rows = _rows(leaf.shape)
    if not _has_rows(leaf.shape):
        return np.zeros(leaf.shape, np.bool_)
    # All false, all true and mixed ones, by row.
    return np.where(rows % 3 == 0, False, np.where(rows % 3 == 1, True, mixed))


def _integers(kind: str, leaf: TrialLeaf, generator: np.random.Generator) -> Array:
    if leaf.bounds is None and leaf.sample is not None:
        # Lengths, offsets, a permutation: what they have in common nobody said.
        if kind == OTHER:
            return np.roll(leaf.sample.ravel(), 1).reshape(leaf.shape)
        return np.asarray(generator.permutation(leaf.sample.ravel())).reshape(leaf.shape)
    low, high = _integer_bounds(leaf)
    middle = (low + high) // 2
    wide = np.dtype(np.uint64 if leaf.dtype.name == "uint64" else np.int64)
    if kind == OTHER and leaf.sample is not None:
        held = leaf.sample.astype(wide)
        return np.where(held >= high, low, held + (low < high)).astype(leaf.dtype)
    if kind == OFFSET:
        low = min(middle + 1, high)
    elif kind == MAGNITUDES:
        high = middle
    # The same number everywhere: as an index, whatever is at it meets a NaN.
    drawn = generator.integers(low, high, () if kind == NAN else leaf.shape, wide, endpoint=True)
    drawn = np.broadcast_to(drawn, leaf.shape)
    if kind == EXTREME:
        turn = np.arange(drawn.size).reshape(leaf.shape) % 3
        drawn = np.where(turn == 0, low, np.where(turn == 1, high, drawn))
    return drawn.astype(leaf.dtype)


def _integer_bounds(leaf: TrialLeaf) -> tuple[int, int]:
    if leaf.bounds is not None:
        return int(leaf.bounds[0]), int(leaf.bounds[1])
    info = ml_dtypes.iinfo(leaf.dtype)
    return int(info.min), int(info.max)


def _floats(
    kind: str,
    leaf: TrialLeaf,
    anchors: Sequence[Array],
    generator: np.random.Generator,
    *,
    keeps_scalars: bool,
) -> Array:
    match kind:
        case "other":
            values = _others(leaf, generator)
        case "offset":
            values = _far(leaf, generator)
        case "magnitudes":
            values = _scattered(leaf, anchors, generator)
        case _:
            values = _ordinary(leaf, generator)
    made = _cast(values, leaf)
    if kind in SPECIAL and not (keeps_scalars and made.size == 1):
        _sprinkle(made, _specials(kind, leaf), generator)
        if kind == EXTREME and _within(0.0, leaf):
            _blank_row(made)
    return made


def _ordinary(leaf: TrialLeaf, generator: np.random.Generator) -> Array:
    """Return float64 of the leaf's shape: the reversed sample, or without one, random numbers."""
    if leaf.sample is not None:
        return np.flip(leaf.sample).astype(np.float64)
    if leaf.bounds is not None:
        return generator.uniform(*leaf.bounds, leaf.shape)
    return generator.standard_normal(leaf.shape)


def _others(leaf: TrialLeaf, generator: np.random.Generator) -> Array:
    """Ordinary numbers that differ from the sample in every element where the bounds let them."""
    values = _ordinary(leaf, generator)
    if leaf.sample is None:
        return values
    held = leaf.sample.astype(np.float64)
    low, high = leaf.bounds or (-np.inf, np.inf)
    for other in (
        held / 2,
        held + 1,
        held - 1,
        np.full(leaf.shape, low),
        np.full(leaf.shape, high),
    ):
        alike = (values == held) | (np.isnan(values) & np.isnan(held))
        allowed = np.isfinite(other) & (other >= low) & (other <= high)
        values = np.where(alike & allowed, other, values)
    return values


def _far(leaf: TrialLeaf, generator: np.random.Generator) -> Array:
    if leaf.bounds is not None:
        low, high = leaf.bounds
        # The eighth that is the farthest from zero.
        near, far = (low, high) if abs(high) >= abs(low) else (high, low)
        return far + (near - far) / 8 * generator.uniform(0, 1, leaf.shape)
    return min(FAR, _largest(leaf) / 8) + np.abs(generator.standard_normal(leaf.shape))


def _scattered(leaf: TrialLeaf, anchors: Sequence[Array], generator: np.random.Generator) -> Array:
    size = 10.0 ** generator.uniform(-DECADES, DECADES, leaf.shape)
    values = size * generator.choice([-1.0, 1.0], leaf.shape)
    if leaf.bounds is not None:
        low, high = leaf.bounds
        part = 10.0 ** generator.uniform(-DECADES, 0, leaf.shape)
        spread = np.where(values < 0, high - (high - low) * part, low + (high - low) * part)
        values = np.where((values >= low) & (values <= high), values, spread)
    near = [signed for each in _fitting(anchors, leaf.shape) for signed in (each, -each)]
    if near:
        places = np.indices(leaf.shape, sparse=True)
        turn = sum(places, np.array(0)) % (len(near) + 1)
        apart = 10.0 ** generator.uniform(-6, -3, leaf.shape)
        apart *= generator.choice([-1.0, 1.0], leaf.shape)
        for number, anchor in enumerate(near):
            close = np.broadcast_to(anchor, leaf.shape) * (1 + apart)
            values = np.where((turn == number) & _within(close, leaf), close, values)
    if _has_rows(leaf.shape):
        # Every second row has one magnitude: what is added to it may be lost, or all there is.
        rows = _rows(leaf.shape)
        row = _ordinary(leaf, generator) * np.resize(ROW_SCALES, rows.size)[rows // 2]
        values = np.where((rows % 2 == 1) & _within(row, leaf), row, values)
    return values


def _fitting(anchors: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """Anchors in float64 that broadcast to a shape, those with the largest numbers first."""
    found: dict[bytes, Array] = {}
    for anchor in anchors:
        if not _is_float(anchor.dtype) or anchor.dtype.kind == "c" or not anchor.size:
            continue
        wide = anchor.astype(np.float64)
        fits = wide.ndim <= len(shape) and all(
            one in (1, size) for one, size in zip(wide.shape[::-1], shape[::-1], strict=False)
        )
        if fits and np.isfinite(wide).all() and np.abs(wide).max() > 1:
            found.setdefault(wide.tobytes(), wide)
    # Of the same magnitude, arrays say more than scalars do.
    ranked = sorted(found.values(), key=lambda each: (each.size == 1, -float(np.abs(each).max())))
    return ranked[:ANCHORS_MAX]


def _specials(kind: str, leaf: TrialLeaf) -> list[float]:
    if kind == NAN:
        values = [np.nan, np.nan]
    elif kind == INFINITE:
        values = [np.inf, -np.inf]
    else:
        most, least = _largest(leaf), float(ml_dtypes.finfo(leaf.dtype).smallest_normal)
        values = [-0.0, most, least, 0.0, -most, -least]
        values += [] if leaf.bounds is None else leaf.bounds
    return [value for value in values if _within(value, leaf)]


def _sprinkle(made: Array, specials: Sequence[float], generator: np.random.Generator) -> None:
    """Put special values into every second row, so that ordinary rows stay beside them."""
    if not specials:
        return
    targets = np.flatnonzero(np.broadcast_to(_rows(made.shape) % 2 == 1, made.shape))
    if not targets.size:
        targets = np.arange(made.size)
    if targets.size > len(specials):
        targets = targets[:-1]  # ordinary numbers stand before and behind
    count = min(targets.size, max(len(specials), targets.size // ORDINARY_PER_SPECIAL))
    places = np.sort(generator.choice(targets, count, replace=False))
    values = np.resize(np.asarray(specials), count)
    made.reshape(-1)[places] = _clipped(values, made.dtype)


def _blank_row(made: Array) -> None:
    """Zeros in the third of every four rows, or in the first of two: of what nothing is divided."""
    rows = _rows(made.shape)
    if _has_rows(made.shape):
        made[np.broadcast_to(rows % 4 == (2 if rows.size > 2 else 0), made.shape)] = 0


def _has_rows(shape: tuple[int, ...]) -> bool:
    """Return whether an array has several rows of several elements."""
    return sum(size > 1 for size in shape) > 1


def _rows(shape: tuple[int, ...]) -> Array:
    """Return the index along the first axis that is longer than 1, broadcast along the others."""
    axis = next((axis for axis, size in enumerate(shape) if size > 1), None)
    if axis is None:
        return np.zeros(shape, np.int64)
    wide = [1] * len(shape)
    wide[axis] = shape[axis]
    return np.arange(shape[axis]).reshape(wide)


def _largest(leaf: TrialLeaf) -> float:
    return float(ml_dtypes.finfo(leaf.dtype).max)


def _within(value: Any, leaf: TrialLeaf) -> Any:
    """Return whether numbers are within the bounds of a leaf; NaN is within none."""
    if leaf.bounds is None:
        return True
    low, high = leaf.bounds
    return (value >= low) & (value <= high)


def _cast(values: Array, leaf: TrialLeaf) -> Array:
    """Return the leaf's dtype, without going over its largest number or its bounds by rounding."""
    made = _clipped(values, leaf.dtype)
    if leaf.bounds is None:
        return made
    low, high = leaf.bounds
    with np.errstate(all="ignore"):
        wide = made.astype(np.float64)
    outside = (wide < low) | (wide > high)
    inside = np.asarray(leaf.sample if leaf.sample is not None else (low + high) / 2)
    return np.where(outside, inside.astype(leaf.dtype), made) if outside.any() else made


def _clipped(values: Array, dtype: np.dtype[Any]) -> Array:
    most = float(ml_dtypes.finfo(dtype).max)
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        made = np.where(finite, np.clip(values, -most, most), values).astype(dtype)
    return np.asarray(made)
