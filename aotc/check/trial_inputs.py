"""Inputs of trials: numbers that the fixture's own do not show an error with.

`trial_inputs` is a pure function of the leaves and a seed, in numpy alone: the same arguments give
the same bytes. Every number is one that a caller may pass: within the leaf's bounds where it has
some; of an integer without bounds one of the fixture's.

Kinds for calls that executables take as they are:
    other: every element differs from the fixture's; booleans are negated.
    nan, infinite: NaN, or infinities of both signs, among ordinary numbers.
    extreme: zeros of both signs, the largest and the smallest normal numbers, a row of zeros,
        integers at the ends of their bounds, booleans that are all false.
    offset: one sign, far from zero; integers of the upper half, booleans that are all true.
    magnitudes: both signs and many magnitudes, and numbers close to the program's own constants;
        integers of the lower half.

Kinds for calls that are padded or split. A recorded file that is repeated is the same in every part
of a split; zeros add nothing to a sum; a maximum over positive numbers does not see the zeros that
a mask puts beside them.
    low, high: numbers of the fixture's kind, none like another, all from the lower or the upper
        half of what the input holds. An integer's stated range begins with its edge: first along
        each dimension, everywhere along other axes. High booleans all hold the opposite of their
        padding, if they ever do.
    rising: low numbers and false in the first half along a dimension, high ones and true in the
        second: a condition on all rows of a part then differs from that on all of the call.
    mixed: low numbers where the input's place among all paths and the indices along axes that carry
        no dimension add up to an even number, and high ones elsewhere: a product or a difference of
        two that are alike has one sign only, or any. No edges, since one that is 0 hides a sign.
    reversed: the other way round.
    nan-row, infinite-row: the fixture's, but for the first along each dimension, which is NaN or
        infinity: a condition that one row meets may change others, and sorting moves it to the end.
    fill-row: likewise, but the last is what pads the input.
    equal-rows: all as the first along each dimension.

Kinds for calls of plain JAX alone:
    at the low end, at the high end: of the range, or else so far from zero that squares are finite.
    like constants: those of the program, within the range.
"""

import math
import zlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from msgspec import Struct
from numpy.random import Generator

type Array = np.ndarray[Any, Any]
type Bounds = tuple[float, float]

OTHER, NAN, INFINITE, EXTREME = "other", "nan", "infinite", "extreme"
OFFSET, MAGNITUDES = "offset", "magnitudes"

KINDS = (OTHER, NAN, INFINITE, EXTREME, OFFSET, MAGNITUDES)
"""The kinds of value trials, in the order of their calls."""

SPECIAL = (NAN, INFINITE, EXTREME)
"""Kinds with special values, which an entry point with `numerics = "finite"` does not promise."""

LOW, HIGH, MIXED, REVERSED, RISING = "low", "high", "mixed", "reversed", "rising"

SPECIAL_ROWS = NAN_ROW, INFINITE_ROW = "nan-row", "infinite-row"
FILL_ROW = "fill-row"
EQUAL_ROWS = "equal-rows"
ENDS = LOWEST, HIGHEST, _ = "at the low end", "at the high end", "like constants"
ROWS = (*SPECIAL_ROWS, FILL_ROW, EQUAL_ROWS)
"""Kinds with rows that are like no other row, or like every other one."""

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
        sample: Numbers that a caller passes, such as the fixture's; of random keys, their data.
        bounds: Inclusive bounds of the numbers; None for all floating-point numbers, and for the
            integers of the sample.
        is_key: Whether these are data of random keys, for which any bits are valid.
        is_fixed: Whether every trial passes the sample, such as a mask that the loader passes.
        is_recorded: Whether the sample comes from a file.
        is_made: Whether a function of the user makes the sample, whose keys, and integers without
            bounds, low and high inputs keep, and whose booleans low ones do.
        fill: What pads it.
        fixed_axes: Whether each axis carries no dimension.
    """

    path: str
    sample: Array
    bounds: Bounds | None = None
    is_key: bool = False
    is_fixed: bool = False
    is_recorded: bool = False
    is_made: bool = False
    fill: Any = False
    fixed_axes: tuple[bool, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its numbers."""
        dtype: np.dtype[Any] = self.sample.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its numbers."""
        shape: tuple[int, ...] = self.sample.shape
        return shape

    @property
    def is_float(self) -> bool:
        """Return whether it has NaN and infinity."""
        return _is_float(self.dtype)

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds of integers that have some."""
        assert self.bounds is not None, "others are those of the sample"
        return int(self.bounds[0]), int(self.bounds[1])

    def within(self, value: Any) -> Any:
        """Return whether numbers are within the bounds; NaN is within none."""
        if self.bounds is None:
            return True
        low, high = self.bounds
        return (value >= low) & (value <= high)


def trial_inputs(
    kind: str, leaves: Sequence[TrialLeaf], anchors: Sequence[Array] = (), seed: int = 0
) -> list[Array]:
    """Return the inputs of a trial of one kind, in the order of the leaves.

    `anchors` are constants of the program (weights, literals), for numbers close to them: that
    shows where an executable moves constants through sums and products. Another seed gives other
    numbers.
    """
    has_arrays = any(leaf.is_float and np.prod(leaf.shape) > 1 for leaf in leaves)
    order = sorted(leaf.path for leaf in leaves if not leaf.is_fixed)
    made = []
    for leaf in leaves:
        if leaf.is_fixed or not leaf.sample.size:
            made.append(leaf.sample)
        elif kind in ROWS:
            made.append(_with_rows(kind, leaf))
        elif kind in (LOW, HIGH):
            made.append(_add_edges(kind, leaf, _half(kind, leaf, seed)))
        elif kind in (MIXED, REVERSED):
            is_even = _is_even(order.index(leaf.path) + (kind == REVERSED), leaf)
            made.append(np.where(is_even, _half(LOW, leaf, seed), _half(HIGH, leaf, seed)))
        elif kind == RISING:
            made.append(_rising(leaf, seed))
        elif kind in ENDS:
            made.append(_ends(kind, leaf, anchors))
        else:
            generator = _generator(kind, leaf, seed)
            made.append(_make_leaf(kind, leaf, anchors, generator, has_arrays=has_arrays))
    return made


def _generator(kind: str, leaf: TrialLeaf, seed: int) -> Generator:
    return np.random.default_rng([seed, zlib.crc32(f"{kind} {leaf.path}".encode())])


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def _has_row(kind: str, leaf: TrialLeaf) -> bool:
    """Return whether callers may pass a leaf with such a row, of `ROWS`, along a dimension."""
    if all(leaf.fixed_axes):
        return False
    if kind in SPECIAL_ROWS:
        return leaf.is_float and leaf.bounds is None
    if kind == EQUAL_ROWS:
        return True
    is_free = leaf.is_float or leaf.is_key or leaf.dtype == np.bool_ or leaf.bounds is not None
    return bool(leaf.within(leaf.fill.real) if is_free else (leaf.sample == leaf.fill).any())


def _with_rows(kind: str, leaf: TrialLeaf) -> Array:
    if not _has_row(kind, leaf):
        return leaf.sample
    made = leaf.sample.copy()
    if kind == EQUAL_ROWS:
        made[...] = made[tuple(slice(None) if fixed else slice(1) for fixed in leaf.fixed_axes)]
    else:
        place = -1 if kind == FILL_ROW else 0
        row = tuple(slice(None) if fixed else place for fixed in leaf.fixed_axes)
        made[row] = {NAN_ROW: np.nan, INFINITE_ROW: np.inf}.get(kind, leaf.fill)
    return made


def _half(kind: str, leaf: TrialLeaf, seed: int) -> Array:
    """Return low or high numbers of a leaf, without edges."""
    generator, is_low, sample = _generator(kind, leaf, seed), kind == LOW, leaf.sample
    if leaf.is_key and not leaf.is_made:
        return generator.integers(0, 1 << 32, leaf.shape, np.uint32)
    if leaf.is_float:
        is_given = leaf.is_recorded or leaf.is_made
        bounds = leaf.bounds or (_bounds_of(sample) if is_given else None)
        values = _half_floats(generator, leaf.shape, bounds, is_low=is_low)
        if leaf.dtype.kind == "c":
            values = values + 1j * generator.standard_normal(leaf.shape)
        return values.astype(leaf.dtype)
    if _has_edges(leaf):
        low, high = _half_integers(*leaf.ends, is_low=is_low)
        return generator.integers(low, high, leaf.shape, endpoint=True).astype(leaf.dtype)
    # Numbers from a file: any of them, from one half of their order.
    if leaf.is_made and (is_low or leaf.dtype != np.bool_):
        return sample
    values = np.sort(sample.ravel())
    if leaf.dtype != np.bool_:
        middle = (len(values) + 1) // 2
        values = values[:middle] if is_low else values[-middle:]
    elif not is_low and (not leaf.is_recorded or (values != leaf.fill).any()):
        # A single false of the caller's hides the false that pads a row from `all`.
        return np.full(leaf.shape, not leaf.fill)
    return np.asarray(values[generator.integers(0, len(values), leaf.shape)])


def _rising(leaf: TrialLeaf, seed: int) -> Array:
    is_late = np.zeros(leaf.shape, np.bool_)
    if False in leaf.fixed_axes:
        axis = leaf.fixed_axes.index(False)
        is_late |= 2 * np.indices(leaf.shape, sparse=True)[axis] >= leaf.shape[axis]
    if leaf.dtype == np.bool_ and not leaf.is_recorded:
        return is_late
    return np.where(is_late, _half(HIGH, leaf, seed), _half(LOW, leaf, seed))


def _add_edges(kind: str, leaf: TrialLeaf, made: Array) -> Array:
    if _has_edges(leaf):
        first = tuple(slice(None) if is_fixed else 0 for is_fixed in leaf.fixed_axes)
        made[first] = leaf.ends[kind == HIGH]
    return made


def _ends(kind: str, leaf: TrialLeaf, anchors: Sequence[Array]) -> Array:
    if leaf.is_key or not (leaf.is_float or leaf.bounds):
        return leaf.sample
    low, high = leaf.bounds or (-math.sqrt(_largest(leaf)), math.sqrt(_largest(leaf)))
    scalars = {each.item() for each in anchors if each.ndim == 0 and np.isfinite(each)}
    held = {LOWEST: [low], HIGHEST: [high]}.get(kind) or sorted(filter(leaf.within, scalars))
    return np.resize(held, leaf.shape).astype(leaf.dtype) if held else leaf.sample


def _has_edges(leaf: TrialLeaf) -> bool:
    """Return whether it holds integers of a stated range."""
    return not (leaf.is_float or leaf.is_key or leaf.dtype == np.bool_) and leaf.bounds is not None


def _is_even(place: int, leaf: TrialLeaf) -> Array:
    """bool[shape]: whether a place and the indices along fixed axes add up to an even number."""
    indices = np.indices(leaf.shape, sparse=True)
    along = (i for i, is_fixed in zip(indices, leaf.fixed_axes, strict=True) if is_fixed)
    return np.broadcast_to(sum(along, np.array(place)) % 2 == 0, leaf.shape)


def _bounds_of(array: Array) -> Bounds | None:
    """Return the smallest and the largest; None where all are zero, or none is a number."""
    real = np.real(array).astype(np.float64)
    finite = real[np.isfinite(real)]
    if not finite.size or not finite.any():
        return None
    low, high = float(finite.min()), float(finite.max())
    # Numbers that are all alike: between half of it and the whole.
    return (low, high) if low < high else (min(low, low / 2), max(low, low / 2))


def _half_floats(
    generator: Generator, shape: tuple[int, ...], bounds: Bounds | None, *, is_low: bool
) -> Array:
    if bounds is None:
        values = np.abs(generator.standard_normal(shape))
        return np.asarray(-values if is_low else values)
    low, high = bounds
    middle = low / 2 + high / 2
    return np.asarray(generator.uniform(*((low, middle) if is_low else (middle, high)), shape))


def _half_integers(low: int, high: int, *, is_low: bool) -> tuple[int, int]:
    middle = (low + high) // 2
    if low < 0 == middle:
        # Zero is in neither half: what a mask puts beside numbers hides behind it.
        return (low, -1) if is_low else (1, high)
    return (low, middle) if is_low else (min(middle + 1, high), high)


def _make_leaf(
    kind: str, leaf: TrialLeaf, anchors: Sequence[Array], generator: Generator, *, has_arrays: bool
) -> Array:
    if leaf.is_key:
        return np.asarray(~leaf.sample)
    if leaf.dtype == np.bool_:
        return _booleans(kind, leaf, generator)
    if not leaf.is_float:
        return _integers(kind, leaf, generator)
    if leaf.dtype.kind == "c":
        # The imaginary part of a bounded input is drawn from N(0, 1), as in fixtures.
        made = np.empty(leaf.shape, leaf.dtype)
        for part, bounds in (("real", leaf.bounds), ("imag", None)):
            half = TrialLeaf(leaf.path, np.array(getattr(leaf.sample, part)), bounds)
            setattr(made, part, _floats(kind, half, anchors, generator, has_arrays=has_arrays))
        return made
    return _floats(kind, leaf, anchors, generator, has_arrays=has_arrays)


def _booleans(kind: str, leaf: TrialLeaf, generator: Generator) -> Array:
    if kind == OFFSET:
        return np.ones(leaf.shape, np.bool_)
    if kind == OTHER:
        return np.asarray(~leaf.sample)
    mixed = generator.integers(0, 2, leaf.shape).astype(np.bool_)
    if kind != EXTREME:
        return mixed
    rows = _rows(leaf.shape)
    if not _has_rows(leaf.shape):
        return np.zeros(leaf.shape, np.bool_)
    # All false, all true and mixed ones, by row.
    return np.where(rows % 3 == 0, False, np.where(rows % 3 == 1, True, mixed))


def _integers(kind: str, leaf: TrialLeaf, generator: Generator) -> Array:
    if leaf.bounds is None:
        # Lengths, offsets, a permutation: what they have in common nobody said.
        if kind == OTHER:
            return np.roll(leaf.sample.ravel(), 1).reshape(leaf.shape)
        return np.asarray(generator.permutation(leaf.sample.ravel())).reshape(leaf.shape)
    low, high = leaf.ends
    wide = np.dtype(np.uint64 if leaf.dtype.name == "uint64" else np.int64)
    if kind == OTHER:
        held = leaf.sample.astype(wide)
        return np.where(held >= high, low, held + (low < high)).astype(leaf.dtype)
    if kind == OFFSET:
        low, high = _half_integers(low, high, is_low=False)
    elif kind == MAGNITUDES:
        high = (low + high) // 2
    # The same number everywhere: as an index, whatever is at it meets a NaN.
    drawn = generator.integers(low, high, () if kind == NAN else leaf.shape, wide, endpoint=True)
    drawn = np.broadcast_to(drawn, leaf.shape)
    if kind == EXTREME:
        turn = np.arange(drawn.size).reshape(leaf.shape) % 3
        drawn = np.where(turn == 0, low, np.where(turn == 1, high, drawn))
    return drawn.astype(leaf.dtype)


def _floats(
    kind: str, leaf: TrialLeaf, anchors: Sequence[Array], generator: Generator, *, has_arrays: bool
) -> Array:
    match kind:
        case "other":
            values = _others(leaf)
        case "offset":
            values = _far(leaf, generator)
        case "magnitudes":
            values = _scatter(leaf, anchors, generator)
        case _:
            values = _ordinary(leaf)
    made = _cast(values, leaf)
    if kind in SPECIAL and not (has_arrays and made.size == 1):
        _sprinkle(made, _specials(kind, leaf), generator)
        if kind == EXTREME and leaf.within(0.0):
            _blank_row(made)
    return made


def _ordinary(leaf: TrialLeaf) -> Array:
    """Return float64 of the leaf's shape: the reversed sample."""
    return np.flip(leaf.sample).astype(np.float64)


def _others(leaf: TrialLeaf) -> Array:
    """Ordinary numbers that differ from the sample in every element where the bounds let them."""
    values = _ordinary(leaf)
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


def _far(leaf: TrialLeaf, generator: Generator) -> Array:
    if leaf.bounds is not None:
        low, high = leaf.bounds
        # The eighth that is the farthest from zero.
        near, far = (low, high) if abs(high) >= abs(low) else (high, low)
        return far + (near - far) / 8 * generator.uniform(0, 1, leaf.shape)
    return min(FAR, _largest(leaf) / 8) + np.abs(generator.standard_normal(leaf.shape))


def _scatter(leaf: TrialLeaf, anchors: Sequence[Array], generator: Generator) -> Array:
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
            values = np.where((turn == number) & leaf.within(close), close, values)
    if _has_rows(leaf.shape):
        # Every second row has one magnitude: what is added to it may be lost, or all there is.
        rows = _rows(leaf.shape)
        row = _ordinary(leaf) * np.resize(ROW_SCALES, rows.size)[rows // 2]
        values = np.where((rows % 2 == 1) & leaf.within(row), row, values)
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
    return [value for value in values if leaf.within(value)]


def _sprinkle(made: Array, specials: Sequence[float], generator: Generator) -> None:
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
    made.reshape(-1)[places] = _clip(values, made.dtype)


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


def _cast(values: Array, leaf: TrialLeaf) -> Array:
    """Return the leaf's dtype, without going over its largest number or its bounds by rounding."""
    made = _clip(values, leaf.dtype)
    if leaf.bounds is None:
        return made
    low, high = leaf.bounds
    with np.errstate(all="ignore"):
        wide = made.astype(np.float64)
    outside = (wide < low) | (wide > high)
    return np.where(outside, leaf.sample, made) if outside.any() else made


def _clip(values: Array, dtype: np.dtype[Any]) -> Array:
    most = float(ml_dtypes.finfo(dtype).max)
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        made = np.where(finite, np.clip(values, -most, most), values).astype(dtype)
    return np.asarray(made)
