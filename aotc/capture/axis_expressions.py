"""Which dimensions an axis carries, found by evaluating its size at several points.

A size that is multilinear in the dimensions (`batch`, `2*seq+1`, `batch*seq`) is recovered exactly
from its values at the corners of a box and checked at every profile; anything else is "?".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from aotc_runtime.schema.size_expressions import Expression

Point = tuple[int, ...]


def corners(values: Mapping[str, tuple[int, int]]) -> list[Point]:
    """The corners of a box, given two values for each dimension, which may be equal."""
    return sorted(set(product(*(sorted(set(pair)) for pair in values.values()))))


def expression(
    dimensions: Sequence[str], box: Mapping[str, tuple[int, int]], sizes: Mapping[Point, int]
) -> int | str:
    """The size of one axis as an integer or an expression over the dimensions.

    box: two values for each dimension (equal if it cannot vary).  sizes: the axis' size at every
    corner of the box and at any further points, which must agree with the result; "?" otherwise,
    and where a corner is missing.
    """
    if any(corner not in sizes for corner in corners({name: box[name] for name in dimensions})):
        return "?"
    varying = [name for name in dimensions if box[name][0] != box[name][1]]
    # Divided differences, one dimension after the other, turn corner values into the coefficients
    # of prod(x_i - low_i); expanding those gives the monomials.
    coefficients: dict[frozenset[str], Fraction] = {}
    for chosen in product((False, True), repeat=len(varying)):
        subset = frozenset(name for name, used in zip(varying, chosen, strict=True) if used)
        total = Fraction(0)
        for signs in product((0, 1), repeat=len(subset)):
            high = dict(zip(sorted(subset), signs, strict=True))
            point = tuple(box[name][high.get(name, 0)] for name in dimensions)
            total += (-1) ** (len(subset) - sum(signs)) * Fraction(sizes[point])
        for name in subset:
            total /= box[name][1] - box[name][0]
        for kept in product((False, True), repeat=len(subset)):
            monomial = frozenset(n for n, keep in zip(sorted(subset), kept, strict=True) if keep)
            scale = Fraction(1)
            for name in subset - monomial:
                scale *= -box[name][0]
            coefficients[monomial] = coefficients.get(monomial, Fraction(0)) + total * scale
    terms = {key: value for key, value in coefficients.items() if value}
    if any(value.denominator != 1 for value in terms.values()):
        return "?"
    found = Expression(tuple((int(value), tuple(sorted(key))) for key, value in terms.items()))
    for point, size in sizes.items():
        if found.value(dict(zip(dimensions, point, strict=True))) != size:
            return "?"
    return expression_text(found) if found.names() else found.value({})


def expression_text(expression: Expression) -> str:
    """An expression as text: products by length, then by name; the constant last."""
    text = ""
    terms = sorted(expression.terms, key=lambda term: (not term[1], len(term[1]), term[1]))
    for coefficient, names in terms:
        factors = [*names] if names and abs(coefficient) == 1 else [str(abs(coefficient)), *names]
        sign = "-" if coefficient < 0 else ("+" if text else "")
        text += sign + "*".join(factors)
    return text
