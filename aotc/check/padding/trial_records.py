"""Trials, their outcomes and what fills padding, as values that processes of a build exchange."""

from typing import Any

import ml_dtypes
import numpy as np
from msgspec import Struct

from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.serving.routing.padded_arrays import fill_value

type Sizes = dict[str, int]

DECLARED = "declared"

ABOUT_FLOATS = ("nan", "inf")
LARGEST, SMALLEST = "largest", "smallest"
ABOUT_NUMBERS = (LARGEST, SMALLEST, "ones")
"""Fills of padding besides the declared ones: a padding leak shows."""


FIXTURE, LOW, HIGH = "fixture", "low", "high"
MIXED, REVERSED = "mixed", "reversed"
"""Inputs of a trial: the fixture's, or others (`aotc.check.padding.trial_samples`)."""


class PlannedTrial(Struct, frozen=True):
    """A call to be compared with one of exactly its sizes.

    Attributes:
        dimensions: The dimensions whose policies it tests.
        sizes: The sizes of the call.
        profiles: The profile it is padded to, or those it is split into, in order.
        fill: A name of this module; empty for a split, whose parts hold the declared numbers where
            another dimension is padded.
        inputs: A name of this module.
        filled: Paths of the padded inputs to the number that fills them, for messages.
        beside: For a call whose rows are tried beside those of others in a call of the profile, the
            smallest sizes of these in the dimensions in which they may differ.
    """

    dimensions: tuple[str, ...]
    sizes: Sizes
    profiles: tuple[Sizes, ...]
    fill: str
    inputs: str = FIXTURE
    filled: dict[str, str] = {}
    beside: Sizes = {}


class EntryTrials(Struct, frozen=True):
    """The trials of one entry point.

    Attributes:
        entry_point: The name of the entry point.
        rtol: Its relative tolerance.
        atol: Its absolute tolerance.
        fills: The number that an input's padding is declared to hold, by leaf.
        held: Leaves whose padding holds this number, or false if none is declared, in every trial.
        masks: Leaves of masks that the loader passes, with their dimensions.
        lengths: Leaves of lengths that the loader passes, with their dimension.
        trials: The planned trials.
        ranges: The smallest and largest numbers that leaves of integers are known to hold, to which
            padding keeps.
        marks: Paths of inputs that may be the caller's own mask and whose fill is not declared, to
            the fill that a message names.
        rounds: Whether a precision of the entry point rounds activations to 8 bits.
    """

    entry_point: str
    rtol: float
    atol: float
    fills: dict[int, str]
    held: tuple[int, ...]
    masks: dict[int, tuple[str, ...]]
    lengths: dict[int, str]
    trials: tuple[PlannedTrial, ...]
    ranges: dict[int, tuple[int, int]] = {}
    marks: dict[str, str] = {}
    rounds: bool = False


type Array = np.ndarray[Any, Any]


def is_float(dtype: DType) -> bool:
    """Return whether it has NaN and infinity: floats and complex numbers."""
    return dtype.value.startswith(("float", "bfloat", "complex"))


def is_integer(dtype: DType) -> bool:
    """Return whether it holds whole numbers only, and more than two of them."""
    return not is_float(dtype) and dtype is not DType.BOOL


def fill_of(entry: EntryTrials, leaf: int, dtype: DType, fill: str) -> Array:
    """Return what pads a leaf in trials with this kind of fill: a 0-d array."""
    kind = DECLARED if leaf in entry.held else fill
    return value_of(kind, dtype, entry.fills.get(leaf, "0"), entry.ranges.get(leaf))


def value_of(
    fill: str, dtype: DType, declared: str, bounds: tuple[int, int] | None = None
) -> Array:
    """Return a 0-d array for one kind of fill.

    `declared` is the manifest's fill; NaN and infinity are used for floats only, with declared
    fills in other arrays. `bounds` are the smallest and largest integer, if not the dtype's.
    """
    if fill == DECLARED or (fill in ABOUT_FLOATS and not is_float(dtype)):
        return fill_value(declared, dtype)
    numpy = numpy_dtype(dtype)
    if bounds:
        return np.asarray(_within(fill, *bounds)).astype(numpy)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(_number(fill, dtype, numpy)).astype(numpy)


def _within(fill: str, low: int, high: int) -> int:
    if fill in (LARGEST, SMALLEST):
        return high if fill == LARGEST else low
    return 1 if low <= 1 <= high else (low + high) // 2


def _number(fill: str, dtype: DType, numpy: np.dtype[Any]) -> Any:
    if fill in ABOUT_FLOATS:
        return float(fill)
    if fill == "ones":
        return 1
    is_largest = fill == LARGEST
    if dtype is DType.BOOL:
        return is_largest
    if not is_float(dtype):
        limits = ml_dtypes.iinfo(numpy)
        return limits.max if is_largest else limits.min
    part = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}
    bounds = ml_dtypes.finfo(part.get(dtype.value, numpy))
    return bounds.max if is_largest else bounds.min
