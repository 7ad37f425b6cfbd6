"""Plan sums of many numbers as sums of sums.

ONNX Runtime, OpenVINO and IREE add the numbers of an axis to one float32, which loses 1e-3 of
100,000 numbers of one sign. XLA adds them in a tree (its pass TreeReductionRewriter).
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

TERMS_MAX = 256
"""Most numbers that are added one after the other: 256 equal ones lose at most 4e-6."""

_BLOCK_MIN = 64
"""Smallest divisor of an axis that is worth avoiding a padded copy."""


class Step(NamedTuple):
    """One sum of a plan.

    The array is reshaped to `shape`, padded with zeros to `padded`, and reshaped to `cut`, whose
    `axes` are summed and dropped.
    """

    shape: tuple[int, ...]
    padded: tuple[int, ...]
    cut: tuple[int, ...]
    axes: tuple[int, ...]


def plan(shape: Sequence[int], axes: Sequence[int]) -> list[Step]:
    """Return the sums that together sum over these axes, in order.

    Axes of at most TERMS_MAX numbers are summed separately in their place; longer ones are joined
    with their neighbors and cut into blocks.
    """
    sizes, left = tuple(shape), sorted(axes)
    steps = []
    while prod(sizes[axis] for axis in left) > TERMS_MAX:
        if max(sizes[axis] for axis in left) > TERMS_MAX:
            sizes, left = _join_axes(sizes, left)
            at = max(axis for axis in left if sizes[axis] > TERMS_MAX)
            count, block = blocks(sizes[at])
            before, after = sizes[:at], sizes[at + 1 :]
            padded = (*before, count * block, *after)
            steps.append(Step(sizes, padded, (*before, count, block, *after), (at + 1,)))
            sizes = (*before, count, *after)
        else:
            taken = _last(sizes, left)
            steps.append(Step(sizes, sizes, sizes, tuple(taken)))
            sizes = tuple(size for axis, size in enumerate(sizes) if axis not in taken)
            left = left[: -len(taken)]
    return [*steps, Step(sizes, sizes, sizes, tuple(left))]


def _join_axes(sizes: tuple[int, ...], axes: Sequence[int]) -> tuple[tuple[int, ...], list[int]]:
    """Make one axis of neighbors among these axes."""
    made: list[int] = []
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if axis in axes and axis - 1 in axes:
            made[-1] *= size
            continue
        if axis in axes:
            kept.append(len(made))
        made.append(size)
    return tuple(made), kept


def _last(sizes: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Return as many of the last axes as hold at most TERMS_MAX numbers."""
    taken: list[int] = []
    for axis in reversed(axes):
        if prod(sizes[each] for each in (axis, *taken)) > TERMS_MAX:
            break
        taken.insert(0, axis)
    return taken


def blocks(size: int) -> tuple[int, int]:
    """Return into how many blocks of which size an axis is cut; they may hold a few more."""
    for block in range(TERMS_MAX, _BLOCK_MIN - 1, -1):
        if size % block == 0:
            return size // block, block
    count = -(-size // TERMS_MAX)
    return count, -(-size // count)
