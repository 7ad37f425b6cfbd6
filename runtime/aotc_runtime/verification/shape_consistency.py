"""Whether what a manifest says of sizes fits together: expressions, relations and profiles.

What passes here is what `serving` builds on. Expressions are read where a size is more than the
name of a dimension, and policies of calls that no profile fits have a module of their own: most
bundles need neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import UNSET

from aotc_runtime.errors import Finding, finding
from aotc_runtime.schema.manifest import Dimension, EntryPoint, ProfileRecord, TensorSpec

Shape = tuple[int, ...]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""An expression that is a dimension by itself."""


def check_shapes(
    entry_point: EntryPoint, dimensions: Mapping[str, Dimension], where: str
) -> Iterator[Finding]:
    """Every contradiction about the sizes of an entry point (AOTC-E118).

    Its trees, and the numbers of its shapes, are those of its tensors: checked before.
    """
    known = set(entry_point.dimensions)
    unknown = sorted(known - dimensions.keys())
    if unknown:
        yield _finding(where, "dimensions of the bundle", ", ".join(unknown))
    tensors = (*entry_point.inputs, *entry_point.outputs)
    bad = [axis for tensor in tensors for axis in tensor.shape if not _is_axis(axis, known)]
    if bad:
        expected = "shapes of sizes and expressions over its dimensions"
        yield _finding(where, expected, ", ".join(map(str, bad))[:200])
        return
    for text in entry_point.relations:
        if not _is_relation(text, known):
            yield _finding(where, "relations between its dimensions", text)
    for index, profile in enumerate(entry_point.profiles):
        yield from _check_profile(entry_point, profile, f"{where} profile {index}")
    if entry_point.out_of_profile or entry_point.symbolic is not UNSET:
        from aotc_runtime.verification.policy_consistency import check_policies

        yield from check_policies(entry_point, where)


def _is_axis(axis: int | str, known: set[str]) -> bool:
    if isinstance(axis, int) or axis == "?" or (axis in known and _PLAIN.fullmatch(axis)):
        return True
    from aotc_runtime.schema.expressions import parse_expression

    try:
        return parse_expression(axis).names() <= known
    except ValueError:
        return False


def _is_relation(text: str, known: set[str]) -> bool:
    from aotc_runtime.schema.expressions import parse_relation

    try:
        return parse_relation(text).names() <= known
    except ValueError:
        return False


def _check_profile(
    entry_point: EntryPoint, profile: ProfileRecord, where: str
) -> Iterator[Finding]:
    if profile.sizes.keys() != set(entry_point.dimensions):
        expected = f"sizes of {', '.join(entry_point.dimensions) or 'nothing'}"
        yield _finding(where, expected, ", ".join(profile.sizes) or "nothing")
        return
    tensors = (*entry_point.inputs, *entry_point.outputs)
    shapes = (*profile.input_shapes, *profile.output_shapes)
    for tensor, shape in zip(tensors, shapes, strict=False):
        if not _is_shape_at(tensor, shape, profile.sizes):
            place = f"{where} {tensor.path}".rstrip()
            yield _finding(place, f"{list(tensor.shape)} at its sizes", str(list(shape)))


def _is_shape_at(tensor: TensorSpec, shape: Shape, sizes: Mapping[str, int]) -> bool:
    return len(shape) == len(tensor.shape) and all(
        axis == "?" or _size(axis, sizes) == size
        for axis, size in zip(tensor.shape, shape, strict=True)
    )


def _size(axis: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(axis, int):
        return axis
    if axis in sizes and _PLAIN.fullmatch(axis):
        return sizes[axis]
    from aotc_runtime.schema.expressions import parse_expression

    return parse_expression(axis).value(sizes)


def _finding(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E118", where, found, expected=expected)
