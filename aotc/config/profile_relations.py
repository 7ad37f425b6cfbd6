"""Checks of the profiles in a build manifest, which dimensions, entry points and targets state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from aotc.config.dimension_specs import (
    PROFILES_MAX,
    accepted_by,
    check_range,
    check_size,
    check_sizes,
)
from aotc.config.input_specs import dimensions_of
from aotc.config.manifest_problem import Problem, Refused, duplicates, spell, unknown_reference
from aotc.config.manifest_specs import EntryPointSpec, ManifestKeys
from aotc.config.profile_grid import grid
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import Dimension
from aotc_runtime.schema.size_expressions import Relation, parse_relation


def check_dimensions(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Ranges the right way round; profiles within them, none twice; none missing where a grid
    needs them.
    """
    listed = _listed_everywhere(manifest, refused)
    for name, dimension in manifest.dimensions.items():
        path: KeyPath = ("dimensions", name)
        yield from check_range(dimension, path, refused)
        if dimension.rule is not None:
            accepted = accepted_by(dimension, path, refused)
            yield from check_sizes(dimension.rule, (*path, "profiles"), accepted)
        elif name not in listed and not refused.within(*path, "profiles"):
            yield Problem(
                code="AOTC-E804",
                path=(*path, "profiles"),
                expected="the key profiles",
                found="no such key",
                hint="add it, for example profiles = [1, 8, 64]",
            )


def check_targets_profiles(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Overrides are of targets, dimensions and entry points that there are."""
    dimensions = refused.declared(manifest.dimensions, "dimensions")
    entry_points = refused.declared(manifest.entry_points, "entry_points")
    for target, override in manifest.overrides.items():
        path: KeyPath = ("target", target)
        if target not in manifest.targets and not refused.within("targets"):
            hint = "add it to `targets`"
            yield unknown_reference(path, "target", target, manifest.targets, hint)
        for kind, noun, names, changed in (
            ("dimensions", "dimension", dimensions, override.of_dimensions),
            ("entry_points", "entry point", entry_points, override.of_entry_points),
        ):
            for name in changed:
                if names is not None and name not in names:
                    at = (*path, kind, name)
                    yield unknown_reference(at, noun, name, names, f"declare [{kind}.{name}]")
        for name, rule in override.dimensions.items():
            accepted = accepted_sizes(manifest, name, refused)
            if name in (dimensions or ()):
                at = (*path, "dimensions", name, "profiles")
                yield from check_sizes(rule, at, accepted)


def check_entry_points(manifest: ManifestKeys, refused: Refused) -> Iterator[Problem]:
    """Relations between the entry point's own dimensions; lists of profiles that are complete,
    accepted and distinct; a grid with something in it.
    """
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name)
        used = used_dimensions(entry, path, refused)
        known = refused.declared(manifest.dimensions, "dimensions") if used is None else used
        relations = [parse_relation(text) for text in entry.relations]
        problems: list[Problem] = []
        for index, relation in enumerate(relations):
            unknown = sorted(relation.names() - {*known}) if known is not None else []
            for missing in unknown[:1]:
                at: KeyPath = (*path, "relations", index)
                hint = "relations are between the dimensions of the entry point's inputs"
                problems.append(unknown_reference(at, "dimension", missing, known or (), hint))
        yield from problems
        if used is None or problems or refused.within(*path, "relations"):
            continue
        accepted = {name: accepted_sizes(manifest, name, refused) for name in used}
        yield from _check_list(entry.profiles, path, accepted, relations, entry.relations)
        if not entry.profiles and not refused.within(*path, "profiles"):
            yield from _check_grid(manifest, path, accepted, relations)
        for target, override in manifest.overrides.items():
            if changed := override.of_entry_points.get(name):
                at = ("target", target, *path)
                yield from _check_list(changed.profiles, at, accepted, relations, entry.relations)


def used_dimensions(entry: EntryPointSpec, path: KeyPath, refused: Refused) -> set[str] | None:
    """The dimensions of an entry point; None if an input cannot be read."""
    if refused.within(*path, "inputs"):
        return None
    return {name for tree in entry.inputs.values() for name in dimensions_of(tree)}


def accepted_sizes(manifest: ManifestKeys, name: str, refused: Refused) -> Dimension | None:
    """What a dimension accepts; None if that cannot be told."""
    if (dimension := manifest.dimensions.get(name)) is None:
        return None
    return accepted_by(dimension, ("dimensions", name), refused)


def _listed_everywhere(manifest: ManifestKeys, refused: Refused) -> set[str]:
    """The dimensions that need no profiles: every entry point that uses them lists its own, or has
    an input that cannot be read.
    """
    gridded: set[str] = set()
    listed: set[str] = set()
    for name, entry in manifest.entry_points.items():
        path: KeyPath = ("entry_points", name)
        used = used_dimensions(entry, path, refused) or set()
        is_listed = entry.profiles or refused.within(*path, "profiles")
        (listed if is_listed else gridded).update(used)
    return listed - gridded


def _check_list(
    points: Sequence[Mapping[str, int]],
    path: KeyPath,
    accepted: Mapping[str, Dimension | None],
    relations: Sequence[Relation],
    texts: Sequence[str],
) -> Iterator[Problem]:
    """The `profiles` of an entry point. texts: of the relations."""
    path = (*path, "profiles")
    yield from duplicates(path, points)
    for index, point in enumerate(points):
        at = (*path, index)
        before: list[Problem] = []
        for name, size in point.items():
            if name not in accepted:
                hint = "name the dimensions of the entry point's inputs"
                before.append(unknown_reference((*at, name), "dimension", name, accepted, hint))
            else:
                otherwise = "remove the profile"
                before.extend(check_size(size, (*at, name), accepted[name], otherwise))
        for name in sorted(accepted.keys() - point.keys()):
            expected, hint = f"a size for {name}", f"add {name} = …"
            before.append(Problem("AOTC-E804", (*at, name), expected, "no such key", hint))
        yield from before
        broken = [
            text
            for relation, text in zip(relations, texts, strict=True)
            if not before and not relation.holds(point)
        ]
        for text in broken[:1]:
            hint = "remove the profile, or the relation"
            yield Problem("AOTC-E805", at, f"sizes with {text}", spell(point), hint)


def _check_grid(
    manifest: ManifestKeys,
    path: KeyPath,
    accepted: Mapping[str, Dimension | None],
    relations: Sequence[Relation],
) -> Iterator[Problem]:
    sizes: dict[str, tuple[int, ...]] = {}
    for name, known in accepted.items():
        rule = manifest.dimensions[name].rule if known is not None else None
        if rule is None or any(check_sizes(rule, (), known)):
            return
        sizes[name] = manifest.dimensions[name].profiles
    if (count := prod(map(len, sizes.values()))) > PROFILES_MAX:
        hint = "list the profiles: profiles = [{ … }, …]"
        expected = f"at most {PROFILES_MAX} combinations of profiles"
        yield Problem("AOTC-E805", path, expected, str(count), hint)
    elif sizes and not grid(sizes, sizes, relations):
        hint = "widen the relations, or compile for smaller sizes"
        expected = "relations that hold for some combination of profiles"
        found = f"none of {count} is left"
        yield Problem("AOTC-E805", (*path, "relations"), expected, found, hint)
