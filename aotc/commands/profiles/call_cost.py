"""The cost of a call, as a function of its sizes.

Every model is non-decreasing in every size: that is what makes a profile that is larger than what
it serves never cheaper, and the search in `aotc.commands.profiles.profile_choice` exact or
bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from aotc.commands.profiles.size_space import Points

Costs = NDArray[np.float64]

DEGREE_MAX = 3
"""In one dimension; a Cholesky factorization needs it. Every size is at most squared beside others:
attention takes batch * seq^2.
"""

LEVELS = (5, 3, 3)
"""Probe sizes per dimension, by number of dimensions; 2 for more."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """A sum of monomials with coefficients that are not negative.

    unit: what the numbers are.  error: largest relative difference to what it was fitted to.
    exponents: int[m, d].  coefficients: float[m].
    """

    unit: str
    error: float
    exponents: NDArray[np.int64]
    coefficients: NDArray[np.float64]

    def costs(self, points: Points) -> Costs:
        """float64[n], positive and non-decreasing in every column."""
        total = np.zeros(len(points))
        for powers, coefficient in zip(self.exponents, self.coefficients, strict=True):
            total += coefficient * np.prod(points.astype(np.float64) ** powers, axis=1)
        return total

    def text(self, names: Sequence[str]) -> str:
        """1.2e+04*seq + 3*batch*seq^2."""
        terms = []
        for powers, coefficient in zip(self.exponents, self.coefficients, strict=True):
            factors = [
                name if power == 1 else f"{name}^{power}"
                for name, power in zip(names, powers, strict=True)
                if power
            ]
            terms.append("*".join([f"{coefficient:.3g}", *factors]))
        return " + ".join(terms)


def elements(dimensions: int) -> CostModel:
    """The product of so many sizes: knows nothing of the program."""
    return CostModel("elements", 0.0, np.ones((1, dimensions), dtype=np.int64), np.ones(1))


def probe_sizes(levels: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """A grid of sizes to learn a cost model from. levels: accepted sizes by dimension, sorted."""
    number = LEVELS[len(levels) - 1] if 0 < len(levels) <= len(LEVELS) else 2
    chosen = {name: spread(sizes, number) for name, sizes in levels.items()}
    return [dict(zip(chosen, sizes, strict=True)) for sizes in product(*chosen.values())]


def spread(sizes: Sequence[int], number: int) -> list[int]:
    """So many of the sizes, both ends included, spaced by ratio rather than by difference."""
    low, high = sizes[0], sizes[-1]
    found: set[int] = {low, high}
    for wanted in np.geomspace(low, high, number)[1:-1]:
        found.add(min(sizes, key=lambda size: abs(size - float(wanted))))
    return sorted(found)


def fit(points: Points, costs: Costs, unit: str) -> CostModel:
    """The polynomial that differs least from the probes, relative to each. costs: positive."""
    exponents = _exponents(points)
    matrix = np.stack([np.prod(points.astype(np.float64) ** p, axis=1) for p in exponents], axis=1)
    relative = matrix / costs[:, None]
    scale = relative.max(axis=0)
    found, _ = nnls(relative / scale, np.ones(len(costs)))
    coefficients = found / scale
    kept = coefficients > 0
    error = float(np.abs(relative @ coefficients - 1).max())
    return CostModel(unit, error, np.array(exponents)[kept], coefficients[kept])


def _exponents(points: Points) -> list[tuple[int, ...]]:
    """Monomials that the number of different sizes in each dimension can tell apart."""
    highest = DEGREE_MAX if points.shape[1] == 1 else 2
    known = [min(highest, len(np.unique(column)) - 1) for column in points.T]
    return list(product(*(range(degree + 1) for degree in known)))
