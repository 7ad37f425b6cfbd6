"""Checks of the profiles that dimensions, entry points and targets of a build manifest state."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from aotc.config.dimension_specs import (
    PROFILES_MAX,
    RANGE,
    check_range,
    check_size,
    check_sizes,
    grid,
)
from aotc.config.manifest_problem import Problem, spell, unknown_reference
from aotc.config.manifest_specs import EntryPointSpec, ManifestKeys
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import Dimension, Range
from aotc_runtime.schema.size_expressions import Relation, parse_relation


def check_dimensions(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require profiles within the ranges, and that none are missing where a grid needs them."""
    gridded: set[str] = set()
    listed: set[str] = set()
    for entry in manifest.entry_points.values():
        (listed if entry.profiles else gridded).update(entry.dimensions)
    for name, dimension in manifest.dimensions.items():
        path: KeyPath = ("dimensions", name)
        yield from check_range(dimension, path)
        if dimension.rule is not None:
            yield from check_sizes(dimension.rule, (*path, "profiles"), _dimension(manifest, name))
        elif name not in listed - gridded:
            yield Problem(
                "AOTC-E804", (*path, "profiles"), "add it, for example profiles = [1, 8, 64]"
            )


def check_targets_profiles(manifest: ManifestKeys) -> Iterator[Problem]:
    """Require overrides of existing targets, dimensions and entry points."""
    for target, override in manifest.overrides.items():
        path: KeyPath = ("target", target)
        if target not in manifest.targets:
            hint = "add it to `targets`"
            yield unknown_reference(path, "target", target, manifest.targets, hint)
        for kind, noun, names, changed in (
            ("dimensions", "dimension", manifest.dimensions, override.of_dimensions),
            ("entry_points", "entry point", manifest.entry_points, override.of_entry_points),
        ):
            for name in changed:
                if name not in names:
                    at = (*path, kind, name)
                    yield unknown_reference(at, noun, name, names, f"declare [{kind}.{name}]")
        for name, rule in override.dimensions.items():
            if name in manifest.dimensions:
                at = (*path, "dimensions", name, "profiles")
                yield from check_sizes(rule, at, _dimension(manifest, name))


def check_entry_profiles(
    manifest: ManifestKeys, entry: EntryPointSpec, path: KeyPath
) -> Iterator[Problem]:
    """Check the relations, the list of profiles and the grid of an entry point.

    Relations are between its dimensions, listed profiles complete and accepted, grids not empty.
    """
    relations = [parse_relation(text) for text in entry.relations]
    problems: list[Problem] = []
    for index, relation in enumerate(relations):
        for missing in sorted(relation.names() - entry.dimensions)[:1]:
            at: KeyPath = (*path, "relations", index)
            hint = "name dimensions of the entry point's inputs"
            problems.append(unknown_reference(at, "dimension", missing, entry.dimensions, hint))
    if problems:
        yield from problems
        return
    accepted = {name: _dimension(manifest, name) for name in entry.dimensions}
    yield from _check_list(entry.profiles, path, accepted, relations, entry.relations)
    if not entry.profiles:
        yield from _check_grid(manifest, path, accepted, relations)
    for target, override in manifest.overrides.items():
        if changed := override.of_entry_points.get(str(path[-1])):
            at = ("target", target, *path)
            yield from _check_list(changed.profiles, at, accepted, relations, entry.relations)


def check_ranges(manifest: ManifestKeys, entry: EntryPointSpec, at: KeyPath) -> Iterator[Problem]:
    """Check the keys beside a dimension of which one executable serves every size."""
    ranged, known = entry.ranged(manifest.dimensions), manifest.dimensions
    beside = {
        "another range": len(ranged) > 1,
        "relations": bool(entry.relations),
        "out_of_profile": any(not isinstance(each, Range) for each in entry.policies.values()),
    }
    found = [what for what, is_there in beside.items() if ranged and is_there]
    for target, override in manifest.overrides.items():
        for name, rule in override.dimensions.items():
            if name in (entry.dimensions if rule == RANGE else ranged):
                found.append(f"[target.{target}.dimensions.{name}]")
        if ranged and at[-1] in override.entry_points:
            found.append(f"[target.{target}.entry_points.{at[-1]}]")
    if found:
        hint, cause = "list the sizes to compile for", "range-with-another-key"
        yield Problem("AOTC-E807", at, hint, found=", ".join(found), cause=cause)
    for name in ranged:
        if len([size for size in known[name].profiles if size > 1]) < 2:
            path: KeyPath = ("dimensions", name, "profiles")
            expected = "at least two sizes above 1"
            yield Problem("AOTC-E805", path, "list the sizes in brackets", expected=expected)


def _dimension(manifest: ManifestKeys, name: str) -> Dimension | None:
    """Return what a dimension accepts; None for one that is not declared or accepts nothing."""
    dimension = manifest.dimensions.get(name)
    return None if dimension is None or dimension.accepted.is_empty else dimension.accepted


def _check_list(
    points: Sequence[Mapping[str, int]],
    path: KeyPath,
    accepted: Mapping[str, Dimension | None],
    relations: Sequence[Relation],
    texts: Sequence[str],
) -> Iterator[Problem]:
    """Check the `profiles` of an entry point; `texts` are those of the relations."""
    for index, point in enumerate(points):
        at = (*path, "profiles", index)
        before: list[Problem] = []
        for name, size in point.items():
            if name not in accepted:
                hint = "name the dimensions of the entry point's inputs"
                before.append(unknown_reference((*at, name), "dimension", name, accepted, hint))
            else:
                otherwise = "remove the profile"
                before.extend(check_size(size, (*at, name), accepted[name], otherwise))
        for name in sorted(accepted.keys() - point.keys()):
            before.append(Problem("AOTC-E804", (*at, name), f"add {name} = SIZE"))
        yield from before
        broken = [
            text
            for relation, text in zip(relations, texts, strict=True)
            if not before and not relation.holds(point)
        ]
        for text in broken[:1]:
            hint = "remove the profile, or the relation"
            cause = "sizes-violate-a-relation"
            yield Problem("AOTC-E805", at, hint, expected=text, found=spell(point), cause=cause)


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
        expected, cause = f"at most {PROFILES_MAX}", "too-many-profiles"
        yield Problem("AOTC-E805", path, hint, expected=expected, found=str(count), cause=cause)
    elif sizes and not grid(sizes, sizes, relations):
        hint = "widen the relations, or compile for smaller sizes"
        found, cause = f"{count} combinations, all of which do", "sizes-violate-a-relation"
        yield Problem("AOTC-E805", (*path, "relations"), hint, found=found, cause=cause)
