"""Sizes as expressions over dimensions, as a bundle manifest writes them: "batch", "2*seq+1".

    expression = ["-"] term { ("+" | "-") term }
    term       = factor { "*" factor }
    factor     = dimension | non-negative integer
    relation   = expression ("<=" | ">=" | "==") expression

No spaces but around a relation's operator. Every such expression is a polynomial in the dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import eq, ge, le

from msgspec import Struct

_FACTOR = r"(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,18})"
_TERM = re.compile(rf"([+-]?)({_FACTOR}(?:\*{_FACTOR})*)")

_OPERATORS = {"<=": le, ">=": ge, "==": eq}

TERMS_MAX = 64

LENGTH_MAX = 1024
"""Characters of a size: powers of longer ones would take time to compute."""


class Expression(Struct, frozen=True):
    """A sum of `terms`: a coefficient and its dimensions, which are repeated for powers."""

    terms: tuple[tuple[int, tuple[str, ...]], ...]

    def value(self, sizes: Mapping[str, int]) -> int:
        """Return the expression's value at these sizes. Raises KeyError for a missing one."""
        total = 0
        for coefficient, names in self.terms:
            product = coefficient
            for name in names:
                product *= sizes[name]
            total += product
        return total

    def names(self) -> frozenset[str]:
        """Return the dimensions in the expression."""
        return frozenset(name for _, names in self.terms for name in names)

    def linear(self) -> Linear | None:
        """Itself as a multiple of one dimension and a constant, which a size can be solved for."""
        factor, offset, dimension = 0, 0, ""
        for coefficient, names in self.terms:
            if not names:
                offset += coefficient
            elif len(names) > 1 or dimension not in ("", names[0]):
                return None
            else:
                dimension = names[0]
                factor += coefficient
        return Linear(dimension, factor, offset) if factor else None


class Linear(Struct, frozen=True):
    """factor * dimension + offset; the factor is not 0."""

    dimension: str
    factor: int
    offset: int

    def solve(self, size: int) -> int | None:
        """Return the size of the dimension at which this is `size`, if there is one."""
        quotient, rest = divmod(size - self.offset, self.factor)
        return quotient if rest == 0 else None


class Relation(Struct, frozen=True):
    """Two expressions and what must hold between them."""

    left: Expression
    operator: str
    right: Expression

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the relation holds. Raises KeyError for a missing dimension."""
        return bool(_OPERATORS[self.operator](self.left.value(sizes), self.right.value(sizes)))

    def names(self) -> frozenset[str]:
        """Return the dimensions in the expression."""
        return self.left.names() | self.right.names()


def parse_expression(text: str | int) -> Expression:
    """Read a size. Raises ValueError for anything but the grammar above."""
    if isinstance(text, int):
        return Expression(((text, ()),))
    if len(text) > LENGTH_MAX:
        raise ValueError(f"more than {LENGTH_MAX} characters: {text[:80]!r}")
    terms: list[tuple[int, tuple[str, ...]]] = []
    position = 0
    while position < len(text) or not terms:
        match = _TERM.match(text, position)
        if match is None or (terms and not match[1]) or (match[1] == "+" and not terms):
            raise ValueError(f"no size over dimensions: {text!r}")
        coefficient, names = (-1 if match[1] == "-" else 1), []
        for factor in match[2].split("*"):
            if factor.isdigit():
                coefficient *= int(factor)
            else:
                names.append(factor)
        terms.append((coefficient, tuple(sorted(names))))
        position = match.end()
        if len(terms) > TERMS_MAX:
            raise ValueError(f"more than {TERMS_MAX} terms: {text[:80]!r}")
    return Expression(tuple(terms))


def parse_relation(text: str) -> Relation:
    """Read "batch*seq <= 16384". Raises ValueError for anything but the grammar above."""
    parts = text.split(" ")
    if len(parts) != 3 or parts[1] not in _OPERATORS:
        raise ValueError(f"no relation between sizes: {text!r}")
    return Relation(parse_expression(parts[0]), parts[1], parse_expression(parts[2]))
