"""The build manifest: which functions to build, at which shapes, with which weights and targets.

`read_build_manifest` reports every problem of a file at once; docs/build-manifest.md lists the
keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from aotc.config import document as toml
from aotc.config import relations
from aotc.config.dimensions import Accepted, DimensionSpec, sizes_of
from aotc.config.document import Document
from aotc.config.fields import Name, Size, bytes_of
from aotc.config.gates import Gates, gates_of
from aotc.config.inputs import (
    InputDict,
    InputLeaf,
    InputLike,
    InputList,
    InputReader,
    InputTree,
    dimensions_of,
    leaf_paths,
)
from aotc.config.models import BuildManifestModel, EntryPointModel
from aotc.config.policies import (
    CompileSpec,
    PadSpec,
    PolicySpec,
    SplitSpec,
    at_once,
    policy_of,
)
from aotc.config.problem import Problem
from aotc.config.profiles import Inputs, Sizes, grid, normalized
from aotc.config.shardings import assign, read_shardings
from aotc.config.tables import declared, table, tables
from aotc.config.validation import validate
from aotc.errors import raise_if
from aotc_runtime.errors import Finding
from aotc_runtime.formats import toml_source
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.expressions import parse_relation
from aotc_runtime.schema.labels import label
from aotc_runtime.schema.mesh import Sharding

__all__ = [
    "BuildManifest",
    "CompileSpec",
    "DimensionSpec",
    "EntryPointSpec",
    "FixtureSpec",
    "InputDict",
    "InputLeaf",
    "InputLike",
    "InputList",
    "InputTree",
    "Name",
    "Overrides",
    "PadSpec",
    "PolicySpec",
    "Size",
    "SourceFile",
    "SplitSpec",
    "WeightsSpec",
    "all_profiles_of",
    "at_once",
    "build_manifest_of",
    "dimensions_of",
    "leaf_paths",
    "profiles_of",
    "read_build_manifest",
]

SCHEMA = 1
KIND = "build manifest"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that the manifest names.

    text: as written.  path: where it is, absolute; it never enters a bundle.
    """

    text: str
    path: Path


@dataclass(frozen=True, slots=True)
class WeightsSpec:
    """At least one of the two. source: a safetensors file with the values.  init: a function whose
    result gives the structure, and the values where there is no source.  shardings: by pattern of
    tensor names.
    """

    source: SourceFile | None
    init: str | None
    shardings: Mapping[str, Sharding]


@dataclass(frozen=True, slots=True)
class FixtureSpec:
    """Recorded inputs (file) or, without a file, random ones (seed).

    ranges: path of an array to the inclusive [low, high] its numbers are drawn from; integers for
    an array of integers.
    """

    file: SourceFile | None
    seed: int
    ranges: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class EntryPointSpec:
    """A function to build; every parameter is in one of bind, inputs and static.

    bind: parameter to weights set.  static: parameter to the value it is fixed to.  donate: inputs
    whose buffers a call may reuse.  profiles: in place of the grid of its dimensions, if any.
    relations: as bundles write them; they hold for every profile and every accepted call.
    out_of_profile: by dimension; `fail` for one that is not listed.  rtol, atol: the tolerance its
    executables are held to.  input_shardings, output_shardings: by pattern of leaf paths.
    """

    function: str
    bind: Mapping[str, str]
    inputs: Mapping[str, InputTree]
    static: Mapping[str, Any]
    donate: tuple[str, ...]
    profiles: tuple[Sizes, ...]
    relations: tuple[str, ...]
    out_of_profile: Mapping[str, PolicySpec]
    rtol: float
    atol: float
    fixtures: FixtureSpec
    input_shardings: Mapping[str, Sharding]
    output_shardings: Mapping[str, Sharding]


@dataclass(frozen=True, slots=True)
class Overrides:
    """The profiles of one target, in place of those for all. dimensions: by name, sorted.
    entry_points: those that list profiles of their own.  memory_limit: bytes that the weights and a
    call of any profile may take together; None for no limit.  devices: how many the target has,
    in place of what its file says.
    """

    dimensions: Mapping[str, tuple[int, ...]]
    entry_points: Mapping[str, tuple[Sizes, ...]]
    memory_limit: int | None = None
    devices: int | None = None


@dataclass(frozen=True, slots=True)
class BuildManifest:
    """What a person asked for.

    path: as the user typed it.  root: the manifest's folder, absolute; neither enters a bundle.
    text: the file's bytes.  lines: by key path.  targets: as written.  overrides: by target, as
    written.  gates: what the build may come to.  mesh: size by axis, in their order; empty for
    programs on one device.
    """

    path: Path
    root: Path
    text: bytes
    lines: Mapping[KeyPath, int]
    name: str
    version: str
    targets: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, WeightsSpec]
    dimensions: Mapping[str, DimensionSpec]
    entry_points: Mapping[str, EntryPointSpec]
    overrides: Mapping[str, Overrides]
    gates: Gates
    mesh: Mapping[str, int]

    def profiles(self, entry_point: str, target: str) -> tuple[Sizes, ...]:
        """What an entry point is compiled for, for a target as written: every assignment of the
        dimensions it uses, sorted; one empty one if it uses none.
        """
        spec, dimensions = self.entry_points[entry_point], self.dimensions
        if changed := self.overrides.get(target):
            dimensions = {
                name: replace(known, profiles=changed.dimensions.get(name, known.profiles))
                for name, known in dimensions.items()
            }
            spec = replace(spec, profiles=changed.entry_points.get(entry_point, spec.profiles))
        return profiles_of(spec, dimensions)

    def files(self) -> Iterator[SourceFile]:
        """Weights and fixtures, as often as they are named."""
        for weights in self.weights.values():
            if weights.source is not None:
                yield weights.source
        for entry_point in self.entry_points.values():
            if entry_point.fixtures.file is not None:
                yield entry_point.fixtures.file

    def where(self, *keys: str | int) -> str:
        """For findings: "manifests/digits.toml:12 entry_points.predict.function"."""
        return toml_source.place(self.path, self.lines, keys)


def read_build_manifest(path: Path) -> BuildManifest:
    """Read and check a build manifest.

    Raises BuildManifestError with every problem found: AOTC-E801 unreadable, E802 not TOML, E803
    unknown key, E804 missing key, E805 wrong type or value, E806 unknown reference, E807 conflict
    or duplicate, E808 missing file, E809 never used, E810 another schema, E814 a sharding that
    does not tile its array. E801, E802 and E810 end the reading.
    """
    return _checked(toml.read(path, KIND))


def build_manifest_of(path: Path, source: bytes) -> BuildManifest:
    """As `read_build_manifest`, of what was read of this path before."""
    return _checked(toml.parse_bytes(path, source, KIND))


def _checked(document: Document) -> BuildManifest:
    toml.require_schema(document, SCHEMA)
    path = document.path
    data = document.data
    root = path.resolve().parent
    model, problems = validate(data, BuildManifestModel)
    inputs, input_problems = _read_inputs(data)
    problems.extend(input_problems)
    problems.extend(relations.check(data, inputs))
    problems.extend(_missing_files(data, root))
    raise_if(document.findings(problems))
    assert model is not None, "without problems there is a model"
    manifest = _manifest(document, root, model, inputs)
    raise_if(_untiled(manifest))
    return manifest


def _untiled(manifest: BuildManifest) -> Iterator[Finding]:
    """Shardings that do not fit inputs whose shapes the manifest tells, at some profile."""
    for name, spec in manifest.entry_points.items():
        leaves = [
            leaf for parameter, tree in spec.inputs.items() for leaf in leaf_paths(tree, parameter)
        ]
        if not spec.input_shardings or any(isinstance(leaf, InputLike) for _, leaf in leaves):
            continue  # the capture asks the functions
        calls = {
            label(name, sizes): [
                (path, [sizes[axis] if isinstance(axis, str) else axis for axis in leaf.shape])
                for path, leaf in leaves
                if isinstance(leaf, InputLeaf)
            ]
            for sizes in all_profiles_of(manifest, name, ())
        }
        where = partial(manifest.where, "entry_points", name, "shardings", "inputs")
        yield from assign(spec.input_shardings, manifest.mesh, calls, where)[1]


def profiles_of(
    entry_point: EntryPointSpec, dimensions: Mapping[str, DimensionSpec]
) -> tuple[Sizes, ...]:
    """Every assignment of the dimensions an entry point uses, sorted; one empty one if none."""
    if entry_point.profiles:
        return entry_point.profiles
    used = {name for tree in entry_point.inputs.values() for name in dimensions_of(tree)}
    sizes = {name: dimensions[name].profiles for name in used}
    return grid(used, sizes, map(parse_relation, entry_point.relations))


def all_profiles_of(
    manifest: BuildManifest, entry_point: str, targets: Sequence[str]
) -> tuple[Sizes, ...]:
    """The profiles of an entry point for any of these targets, or the manifest's if none are given,
    each once, sorted.
    """
    every = [
        sizes
        for target in targets or manifest.targets
        for sizes in manifest.profiles(entry_point, target)
    ]
    unique = {tuple(sorted(sizes.items())): sizes for sizes in every}
    return tuple(unique[key] for key in sorted(unique))


def _read_inputs(data: Mapping[str, Any]) -> tuple[Inputs, list[Problem]]:
    enable_x64 = data.get("enable_x64", False)
    reader = InputReader(
        dimensions=declared(data, "dimensions"),
        enable_x64=enable_x64 if isinstance(enable_x64, bool) else None,
    )
    inputs = {
        name: {
            parameter: reader.read(raw, ("entry_points", name, "inputs", parameter))
            for parameter, raw in table(entry.get("inputs")).items()
        }
        for name, entry in tables(data.get("entry_points"))
    }
    return inputs, reader.problems


def _missing_files(data: Mapping[str, Any], root: Path) -> Iterator[Problem]:
    named: dict[KeyPath, object] = {
        ("weights", name, "source"): weights.get("source")
        for name, weights in tables(data.get("weights"))
    }
    named |= {
        ("entry_points", name, "fixtures", "file"): table(entry.get("fixtures")).get("file")
        for name, entry in tables(data.get("entry_points"))
    }
    for path, text in named.items():
        if isinstance(text, str) and text and (reason := _why_no_file(root / text)):
            yield Problem(
                code="AOTC-E808",
                path=path,
                expected="a file; a relative path starts at the manifest's folder",
                found=f"{text}: {reason}",
                hint="create the file, or correct the path",
            )


def _why_no_file(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        # ValueError: a null character in the path.
        return getattr(error, "strerror", None) or str(error)
    if not stat.S_ISREG(mode):
        return "a folder" if stat.S_ISDIR(mode) else "no regular file"
    return None if os.access(path, os.R_OK) else "not readable"


def _manifest(
    document: Document, root: Path, model: BuildManifestModel, inputs: Inputs
) -> BuildManifest:
    def file(text: str | None) -> SourceFile | None:
        # Not resolved: whoever records what was read shall hear of the link, not of its target.
        return None if text is None else SourceFile(text, root / text)

    def entry_point(name: str, entry: EntryPointModel) -> EntryPointSpec:
        trees = {key: tree for key, tree in inputs[name].items() if tree is not None}
        ranges = {leaf: (low, high) for leaf, (low, high) in sorted(entry.fixtures.ranges.items())}
        return EntryPointSpec(
            function=entry.function,
            bind=entry.bind,
            inputs=trees,
            static=entry.static,
            donate=tuple(entry.donate),
            profiles=_listed(entry.profiles),
            relations=tuple(map(normalized, entry.relations)),
            out_of_profile={
                dimension: policy
                for dimension, raw in sorted(entry.out_of_profile.items())
                if (policy := policy_of(raw)) is not None
            },
            rtol=entry.tolerance.rtol,
            atol=entry.tolerance.atol,
            fixtures=FixtureSpec(
                file=file(entry.fixtures.file), seed=entry.fixtures.seed or 0, ranges=ranges
            ),
            input_shardings=read_shardings(entry.shardings.inputs),
            output_shardings=read_shardings(entry.shardings.outputs),
        )

    accepted = {
        name: Accepted(dimension.range[0], dimension.range[1], dimension.multiple_of)
        for name, dimension in sorted(model.dimensions.items())
    }
    dimensions = {
        name: DimensionSpec(
            minimum=known.minimum,
            maximum=known.maximum,
            multiple_of=known.multiple_of,
            profiles=sizes_of(model.dimensions[name].profiles, known),
        )
        for name, known in accepted.items()
    }
    overrides = {
        target: Overrides(
            dimensions={
                name: sizes_of(changed.profiles, accepted[name])
                for name, changed in sorted(override.dimensions.items())
                if changed.profiles is not None
            },
            entry_points={
                name: _listed(changed.profiles)
                for name, changed in sorted(override.entry_points.items())
                if changed.profiles
            },
            memory_limit=bytes_of(override.memory_limit),
            devices=override.devices,
        )
        for target, override in sorted(model.target.items())
    }
    return BuildManifest(
        path=document.path,
        root=root,
        text=document.source,
        lines=document.lines,
        name=model.name,
        version=model.version,
        targets=tuple(model.targets),
        enable_x64=model.enable_x64,
        weights={
            name: WeightsSpec(
                source=file(weights.source),
                init=weights.init,
                shardings=read_shardings(weights.shardings),
            )
            for name, weights in sorted(model.weights.items())
        },
        dimensions=dimensions,
        entry_points={
            name: entry_point(name, entry) for name, entry in sorted(model.entry_points.items())
        },
        overrides=overrides,
        gates=gates_of(model.gates),
        mesh=model.mesh,
    )


def _listed(profiles: Iterable[Sizes]) -> tuple[Sizes, ...]:
    """Profiles of a list, as a grid would have them."""
    points = [dict(sorted(sizes.items())) for sizes in profiles]
    return tuple(sorted(points, key=lambda sizes: tuple(sizes.values())))
