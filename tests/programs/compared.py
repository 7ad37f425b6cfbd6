"""Results without jax beside those of plain JAX, by the structure that each side saw."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jax.numpy import issubdtype

from . import plain

RTOL, ATOL = 1e-5, 1e-6
"""As a build manifest has them by default."""


@dataclass
class Compared:
    """differences: one line each.  worst: the largest error, by the largest number of its array."""

    differences: list[str] = field(default_factory=list)
    leaves: int = 0
    identical: int = 0
    worst: float = 0.0


def compare(reference: Path, served: Path, manifest: Mapping[str, Any]) -> dict[str, Compared]:
    """By entry point. Tolerances are those that the manifest states."""
    (document, expected), (results, actual) = plain.read(reference), plain.read(served)
    found = {}
    for recorded, nodes in zip(document, results, strict=True):
        name = recorded["name"]
        stated = manifest["entry_points"][name].get("tolerance", {})
        compared = Compared()
        for number, ((_, wanted), got) in enumerate(zip(recorded["calls"], nodes, strict=True)):
            for where, one, other in _pairs(wanted, got, f"call {number}", compared):
                array, against = expected[one], actual[other]
                _numbers(array, against, where, stated, compared)
        found[name] = compared
    return found


def _pairs(
    wanted: plain.Node, got: plain.Node, where: str, compared: Compared
) -> Iterator[tuple[str, int, int]]:
    """Numbers of leaves that stand in the same place of both; other places are differences."""
    one, other = _outline(wanted), _outline(got)
    if one != other:
        compared.differences.append(f"{where}: expected {one}, found {other}")
        return
    if wanted[0] == "leaf":
        yield where, wanted[1], got[1]
        return
    if wanted[0] in {"none", "number"}:
        return
    for number, (child, against) in enumerate(zip(wanted[-1], got[-1], strict=True)):
        if wanted[0] in {"list", "tuple"}:
            yield from _pairs(child, against, f"{where}/{number}", compared)
        else:
            yield from _pairs(child[1], against[1], f"{where}/{child[0]}", compared)


def _outline(node: plain.Node) -> tuple[Any, ...]:
    """Describe a node without its children, by their names and types."""
    match node:
        case ["leaf", _]:
            return ("leaf",)
        case ["list" | "tuple" as kind, children]:
            return kind, len(children)
        case ["dict" | "named tuple" | "record", *named, children]:
            return node[0], *named, [(type(name).__name__, name) for name, _ in children]
    return tuple(node)


def _numbers(
    expected: Any, actual: Any, where: str, stated: Mapping[str, float], compared: Compared
) -> None:
    compared.leaves += 1
    one, other = (f"{array.dtype.name}{list(array.shape)}" for array in (expected, actual))
    if one != other:
        compared.differences.append(f"{where}: expected {one}, found {other}")
        return
    if expected.tobytes() == actual.tobytes():
        compared.identical += 1
        return
    if not issubdtype(expected.dtype, np.inexact):
        compared.differences.append(f"{where}: {np.sum(expected != actual)} numbers differ")
        return
    wide = np.complex128 if issubdtype(expected.dtype, np.complexfloating) else np.float64
    wanted, got = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(wanted) & np.isfinite(got)
    largest = np.max(np.abs(wanted), initial=0, where=finite)
    apart = np.max(np.abs(np.where(finite, got, 0) - np.where(finite, wanted, 0)), initial=0)
    compared.worst = max(compared.worst, float(apart / largest) if largest else float(apart))
    rtol, atol = stated.get("rtol", RTOL), stated.get("atol", ATOL)
    near = np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if not near.all():
        found = f"{got[~near][0]} instead of {wanted[~near][0]}"
        compared.differences.append(f"{where}: {np.sum(~near)} numbers of {one}, {found}")
