"""Which sizes an entry point is compiled for: a grid over its dimensions, or a list of its own.

    [entry_points.predict]
    profiles = [{ batch = 1, seq = 128 }, { batch = 8, seq = 512 }]
    relations = ["batch*seq <= 16384"]

A target may have others: `[target.NAME.dimensions.batch]`, `[target.NAME.entry_points.predict]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product

from aotc_runtime.schema.size_expressions import Relation

type Sizes = dict[str, int]

_OPERATOR = re.compile(r"(<=|>=|==)")


def normalized(relation: str) -> str:
    """A relation as bundles write it: blanks around the operator and nowhere else."""
    return " ".join("".join(part.split()) for part in _OPERATOR.split(relation))


def grid(
    dimensions: Iterable[str],
    profiles: Mapping[str, tuple[int, ...]],
    relations: Iterable[Relation],
) -> tuple[Sizes, ...]:
    """Every combination of the dimensions' profiles for which the relations hold, sorted; one
    empty one if there are no dimensions.
    """
    names, wanted = sorted(dimensions), tuple(relations)
    points = (
        dict(zip(names, sizes, strict=True)) for sizes in product(*(profiles[n] for n in names))
    )
    return tuple(point for point in points if all(r.holds(point) for r in wanted))
