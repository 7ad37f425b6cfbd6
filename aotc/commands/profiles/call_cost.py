"""The cost of a call, as a function of its sizes.

Every model is non-decreasing in every size: so a profile larger than what it serves is never
cheaper, and the search in `aotc.commands.profiles.profile_choice` is exact or bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aotc.base.errors import refusal
from aotc.commands.profiles.size_space import Points
from aotc_runtime.schema.size_expressions import parse_expression

Costs = NDArray[np.float64]

ELEMENTS = "elements"


@dataclass(frozen=True, slots=True)
class CostModel:
    """A sum of monomials with coefficients that are not negative.

    text: as the caller wrote it.  exponents: int[m, d].  coefficients: float[m].
    """

    text: str
    exponents: NDArray[np.int64]
    coefficients: NDArray[np.float64]

    def costs(self, points: Points) -> Costs:
        """Return float64[n], positive and non-decreasing in every column."""
        total = np.zeros(len(points))
        for powers, coefficient in zip(self.exponents, self.coefficients, strict=True):
            total += coefficient * np.prod(points.astype(np.float64) ** powers, axis=1)
        return total


def elements(dimensions: int) -> CostModel:
    """Return the product of so many sizes."""
    return CostModel(ELEMENTS, np.ones((1, dimensions), dtype=np.int64), np.ones(1))


def parse_cost(text: str, names: Sequence[str]) -> CostModel:
    """Parse a `--cost`: "elements", or a sum such as "batch*seq*seq+300*batch*seq".

    Args:
        text: The expression, in the grammar of `aotc_runtime.schema.size_expressions`.
        names: The dimensions, sorted.

    Raises:
        UsageError: AOTC-E001 for another text, other dimensions, or a coefficient below one.
    """
    if text == ELEMENTS:
        return elements(len(names))
    try:
        terms = parse_expression(text).terms
    except ValueError:
        terms = ()
    if not terms or any(
        coefficient < 1 or not {*factors} <= {*names} for coefficient, factors in terms
    ):
        expected = f"{ELEMENTS}, or a sum of products of {', '.join(names)}"
        raise refusal(
            "AOTC-E001", "--cost", text, cause="cost-expression-is-invalid", expected=expected
        )
    exponents = [[factors.count(name) for name in names] for _, factors in terms]
    coefficients = [float(coefficient) for coefficient, _ in terms]
    return CostModel(text, np.array(exponents), np.array(coefficients))
