"""Shardings of arrays over the mesh, as a manifest writes them.

    mesh = { data = 2, model = 4 }

    [weights.params.shardings]
    "layers/*/up" = [[], "model"]       # the second axis over model; every device has all rows

    [entry_points.predict.shardings]
    inputs = { image = ["data", []] }
    outputs = { result = [["data", "model"], []] }

A key is a leaf's path, or a pattern of paths: `*` stands for any characters of one step, `**` for
any number of steps. Leaves that no key matches are replicated.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError

from aotc.base.errors import finding, shorten
from aotc.config.field_types import refusal
from aotc.config.manifest_problem import Problem, spell, unknown_reference
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import Sharding
from aotc_runtime.schema.shard_layout import text, uneven_axis

RESULT = "result"
"""Path of a result that is one array."""

type Leaf = tuple[str, Sequence[int]]
"""Path and shape."""


_AXES = TypeAdapter(list[str | list[str]], config=ConfigDict(strict=True))


def _sharding(raw: object) -> Sharding:
    try:
        axes = _AXES.validate_python(raw)
    except ValidationError:
        expected = (
            "for each axis of the array the name of an axis of the mesh, an array of names, or []"
        )
        raise refusal(expected, 'write for example ["data", []]') from None
    return tuple((axis,) if isinstance(axis, str) else tuple(axis) for axis in axes)


Shardings = Mapping[str, Annotated[Sharding, PlainValidator(_sharding)]]
"""Shardings by pattern of leaf paths."""


def check_sharding(sharding: Sharding, path: KeyPath, mesh: Mapping[str, int]) -> Iterator[Problem]:
    """Require a sharding over axes of the mesh, each used once."""
    if not mesh:
        yield Problem(
            "AOTC-E807",
            path,
            "add `mesh = { data = 2 }`, or remove the shardings",
            cause="sharding-without-a-mesh",
        )
        return
    seen: set[str] = set()
    for index, names in enumerate(sharding):
        for name in names:
            if name not in mesh:
                hint = "name an axis of `mesh`, or write [] for an axis that is not sharded"
                yield unknown_reference((*path, index), "mesh axis", name, mesh, hint)
            elif name in seen:
                yield Problem(
                    "AOTC-E807",
                    (*path, index),
                    "write [] here",
                    expected="each axis of the mesh at most once",
                    found=spell(name),
                    cause="duplicate-value",
                )
            seen.add(name)


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a leaf's path."""
    parts = re.split(r"(\*\*/|/\*\*|\*\*|\*)", pattern)
    meanings = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*"}
    expression = "".join(meanings.get(part) or re.escape(part) for part in parts)
    return re.fullmatch(expression, path) is not None


def assign(
    patterns: Mapping[str, Sharding],
    sizes: Mapping[str, int],
    calls: Mapping[str, Sequence[Leaf]],
    where: Callable[[str], str],
) -> tuple[dict[str, Sharding], list[Finding]]:
    """Return the sharding of each leaf, () for those that no pattern matches, and findings.

    Findings are AOTC-E806 for a pattern that matches nothing, E807 for two that match one leaf, and
    E814 for a sharding that does not tile the leaf. `sizes` are those of the mesh, by axis. `calls`
    has the leaves at each profile, by its label, or at "" if there are no profiles; `where` returns
    the location of a pattern.
    """
    paths = {path: None for leaves in calls.values() for path, _ in leaves}
    found: dict[str, Sharding] = dict.fromkeys(paths, ())
    owners: dict[str, str] = {}
    findings: list[Finding] = []
    for pattern, sharding in patterns.items():
        own = [path for path in paths if matches(pattern, path or RESULT)]
        if not own:
            findings.append(_no_match(where(pattern), pattern, [path or RESULT for path in paths]))
        for path in own:
            if path in owners:
                found_twice = f"{path or RESULT}, which {spell(owners[path])} matches too"
                cause = "sharding-patterns-overlap"
                findings.append(finding("AOTC-E807", where(pattern), found_twice, cause=cause))
            owners[path] = pattern
            found[path] = sharding if any(sharding) else ()
        mismatch = next(_mismatches(sharding, sizes, calls, own, where(pattern)), None)
        if mismatch is not None:
            findings.append(mismatch)
    return found, findings


def _mismatches(
    sharding: Sharding,
    sizes: Mapping[str, int],
    calls: Mapping[str, Sequence[Leaf]],
    own: Sequence[str],
    where: str,
) -> Iterator[Finding]:
    for label, leaves in calls.items():
        for path, shape in leaves:
            if path not in own:
                continue
            at = f"{path or RESULT} with shape {list(shape)}" + (f" at {label}" if label else "")
            if len(shape) != len(sharding):
                expected = f"a sharding for {len(shape)} axes"
                found = f"[{text(sharding)}] for {at}"
                yield finding("AOTC-E814", where, found, expected=expected)
            elif (axis := uneven_axis(sizes, sharding, shape)) is not None:
                into = prod(sizes[name] for name in sharding[axis])
                expected = f"a multiple of {'*'.join(sharding[axis])} = {into} on axis {axis}"
                cause = "size-is-not-divisible-by-the-mesh"
                yield finding("AOTC-E814", where, at, cause=cause, expected=expected)


def _no_match(where: str, pattern: str, paths: Sequence[str]) -> Finding:
    cause = "sharding-pattern-matches-nothing"
    expected = f"the path of an array, such as {shorten(paths, 16)}" if paths else ""
    hint = did_you_mean(pattern, paths, "write `*` for one step, `**` for several")
    return finding("AOTC-E806", where, spell(pattern), cause=cause, expected=expected, hint=hint)
