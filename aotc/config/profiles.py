"""Which sizes an entry point is compiled for: a grid over its dimensions, or a list of its own.

    [entry_points.predict]
    profiles = [{ batch = 1, seq = 128 }, { batch = 8, seq = 512 }]
    relations = ["batch*seq <= 16384"]

A target may have others: `[target.NAME.dimensions.batch]`, `[target.NAME.entry_points.predict]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from aotc.config.dimensions import (
    PROFILES_MAX,
    accepted_by,
    check_range,
    check_size,
    check_sizes,
    sizes_of,
)
from aotc.config.inputs import InputTree, dimensions_of
from aotc.config.problem import Problem, duplicates, show, spell, unknown_reference
from aotc.config.tables import declared, table, tables
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.expressions import Relation, parse_relation
from aotc_runtime.schema.manifest import Dimension

type Inputs = Mapping[str, Mapping[str, InputTree | None]]
"""By entry point and parameter; None for an input that has a problem of its own."""

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


def check_dimensions(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Ranges the right way round; profiles within them, none twice; none missing where a grid
    needs them.
    """
    listed = _listed_everywhere(data, inputs)
    for name, dimension in tables(data.get("dimensions")):
        path: KeyPath = ("dimensions", name)
        yield from check_range(dimension, path)
        if "profiles" in dimension:
            accepted = accepted_by(dimension)
            yield from check_sizes(dimension["profiles"], (*path, "profiles"), accepted)
        elif name not in listed:
            yield Problem(
                code="AOTC-E804",
                path=(*path, "profiles"),
                expected="the key profiles",
                found="no such key",
                hint="add it, for example profiles = [1, 8, 64]",
            )


def check_targets_profiles(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Overrides are of targets, dimensions and entry points that there are."""
    targets = data.get("targets")
    known = [t for t in targets if isinstance(t, str)] if isinstance(targets, list) else None
    for target, override in tables(data.get("target")):
        path: KeyPath = ("target", target)
        if known is not None and target not in known:
            yield unknown_reference(path, "target", target, known, "add it to `targets`")
        for kind, noun in (("dimensions", "dimension"), ("entry_points", "entry point")):
            names = declared(data, kind)
            for name, changed in tables(override.get(kind)):
                at = (*path, kind, name)
                if names is not None and name not in names:
                    yield unknown_reference(at, noun, name, names, f"declare [{kind}.{name}]")
                elif kind == "dimensions" and "profiles" in changed:
                    dimension = table(table(data["dimensions"]).get(name))
                    sizes = changed["profiles"]
                    yield from check_sizes(sizes, (*at, "profiles"), accepted_by(dimension))


def check_entry_points(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Relations that can be read; lists of profiles that are complete, accepted and distinct; a
    grid with something in it.
    """
    for name, entry in tables(data.get("entry_points")):
        path: KeyPath = ("entry_points", name)
        used = used_dimensions(inputs.get(name, {}))
        relations, problems = _relations(entry, path, used, declared(data, "dimensions"))
        yield from problems
        if used is None or problems:
            continue
        accepted = {
            dimension: accepted_by(table(table(data.get("dimensions")).get(dimension)))
            for dimension in used
        }
        yield from _check_list(entry, path, accepted, relations)
        yield from _check_grid(data, entry, path, accepted, relations)
        for target, override in tables(data.get("target")):
            changed = table(table(override.get("entry_points")).get(name))
            at = ("target", target, *path)
            yield from _check_list(changed, at, accepted, relations)


def used_dimensions(inputs: Mapping[str, InputTree | None]) -> set[str] | None:
    """The dimensions of an entry point; None if an input cannot be read."""
    trees = inputs.values()
    return {n for tree in trees if tree for n in dimensions_of(tree)} if all(trees) else None


def _listed_everywhere(data: Mapping[str, Any], inputs: Inputs) -> set[str]:
    """The dimensions that need no profiles: every entry point that uses them lists its own, or has
    an input that cannot be read.
    """
    gridded: set[str] = set()
    listed: set[str] = set()
    for name, entry in tables(data.get("entry_points")):
        used = used_dimensions(inputs.get(name, {})) or set()
        (listed if "profiles" in entry else gridded).update(used)
    return listed - gridded


def _relations(
    entry: Mapping[str, Any],
    path: KeyPath,
    used: Collection[str] | None,
    names: Collection[str] | None,
) -> tuple[list[Relation], list[Problem]]:
    found: list[Relation] = []
    problems: list[Problem] = []
    raw = entry.get("relations", [])
    texts = raw if isinstance(raw, list) else []
    problems.extend(duplicates((*path, "relations"), texts))
    known = names if used is None else used
    for index, text in enumerate(texts):
        at = (*path, "relations", index)
        if not isinstance(text, str):
            continue
        try:
            relation = parse_relation(normalized(text))
        except ValueError:
            expected = 'two sizes over dimensions and <=, >= or ==: "batch*seq <= 16384"'
            hint = "sizes are made of dimensions, whole numbers, +, - and *"
            problems.append(Problem("AOTC-E805", at, expected, show(text), hint))
            continue
        found.append(relation)
        for name in sorted(relation.names()):
            if known is not None and name not in known:
                hint = "relations are between the dimensions of the entry point's inputs"
                problems.append(unknown_reference(at, "dimension", name, known, hint))
                break
    return found, problems


def _check_list(
    entry: Mapping[str, Any],
    path: KeyPath,
    accepted: Mapping[str, Dimension | None],
    relations: list[Relation],
) -> Iterator[Problem]:
    """The `profiles` of an entry point; the models report values of a wrong type."""
    raw = entry.get("profiles")
    path = (*path, "profiles")
    points = raw if isinstance(raw, list) else []
    yield from duplicates(path, points)
    for index, point in enumerate(points):
        if not isinstance(point, dict):
            continue
        at = (*path, index)
        before: list[Problem] = []
        for name, size in point.items():
            if name not in accepted:
                hint = "name the dimensions of the entry point's inputs"
                before.append(unknown_reference((*at, name), "dimension", name, accepted, hint))
            elif isinstance(size, int) and not isinstance(size, bool) and size >= 1:
                otherwise = "remove the profile"
                before.extend(check_size(size, (*at, name), accepted[name], otherwise))
        for name in sorted(accepted.keys() - point.keys()):
            expected, hint = f"a size for {name}", f"add {name} = …"
            before.append(Problem("AOTC-E804", (*at, name), expected, "no such key", hint))
        yield from before
        if before or not all(isinstance(size, int) for size in point.values()):
            continue
        for relation, text in zip(relations, entry.get("relations", ()), strict=False):
            if not relation.holds(point):
                hint = "remove the profile, or the relation"
                expected = f"sizes with {normalized(text)}"
                yield Problem("AOTC-E805", at, expected, spell(point), hint)
                break


def _check_grid(
    data: Mapping[str, Any],
    entry: Mapping[str, Any],
    path: KeyPath,
    accepted: Mapping[str, Dimension | None],
    relations: list[Relation],
) -> Iterator[Problem]:
    if "profiles" in entry or not accepted:
        return
    sizes: dict[str, tuple[int, ...]] = {}
    for name, known in accepted.items():
        raw = table(table(data.get("dimensions")).get(name)).get("profiles")
        if known is None or raw is None or any(check_sizes(raw, (), known)):
            return
        sizes[name] = sizes_of(raw, known)
    count = 1
    for each in sizes.values():
        count *= len(each)
    if count > PROFILES_MAX:
        hint = "list the profiles: profiles = [{ … }, …]"
        expected = f"at most {PROFILES_MAX} combinations of profiles"
        yield Problem("AOTC-E805", path, expected, str(count), hint)
    elif not grid(sizes, sizes, relations):
        hint = "widen the relations, or compile for smaller sizes"
        expected = "relations that hold for some combination of profiles"
        found = f"none of {count} is left"
        yield Problem("AOTC-E805", (*path, "relations"), expected, found, hint)
