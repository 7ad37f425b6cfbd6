"""Reads build manifests: which functions to build, at which shapes, with which weights and targets.

`read_build_manifest` reports every problem of a file at once; docs/build-manifest.md lists the
keys. The values that it returns are defined in `aotc.config.specs`, and may be imported from here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from aotc.config import document as toml
from aotc.config import relations
from aotc.config.dimensions import DimensionSpec, sizes_of
from aotc.config.document import Document
from aotc.config.fields import Name, Size, bytes_of
from aotc.config.gates import gates_of
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
from aotc.config.models import BuildManifestModel, EntryPointModel, TargetProfilesModel
from aotc.config.policies import at_once, policy_of
from aotc.config.problem import Problem
from aotc.config.profiles import Inputs, Sizes, normalized
from aotc.config.shardings import assign, read_shardings
from aotc.config.specs import (
    BuildManifest,
    EntryPointSpec,
    FixtureSpec,
    Overrides,
    SourceFile,
    WeightsSpec,
    profiles_of,
)
from aotc.config.tables import declared, table, tables
from aotc.config.validation import validate
from aotc.errors import raise_if
from aotc_runtime.errors import Finding
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.manifest import Dimension

__all__ = [
    "BuildManifest",
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
    "Size",
    "SourceFile",
    "WeightsSpec",
    "at_once",
    "dimensions_of",
    "leaf_paths",
    "profiles_of",
    "read_build_manifest",
]

SCHEMA = 1
KIND = "build manifest"


def read_build_manifest(path: Path) -> BuildManifest:
    """Read and check a build manifest.

    Raises BuildManifestError with every problem found: AOTC-E801 unreadable, E802 not TOML, E803
    unknown key, E804 missing key, E805 wrong type or value, E806 unknown reference, E807 conflict
    or duplicate, E808 missing file, E809 never used, E810 another schema, E814 a sharding that
    does not tile its array. E801, E802 and E810 end the reading.
    """
    return _checked(toml.read(path, KIND))


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
    every = {key for target in manifest.targets for key in manifest.executables(target)}
    for name, spec in manifest.entry_points.items():
        leaves = [
            leaf for parameter, tree in spec.inputs.items() for leaf in leaf_paths(tree, parameter)
        ]
        if not spec.input_shardings or any(isinstance(leaf, InputLike) for _, leaf in leaves):
            continue  # the capture asks the functions
        calls = {
            key.label: [
                (path, [sizes[axis] if isinstance(axis, str) else axis for axis in leaf.shape])
                for path, leaf in leaves
                if isinstance(leaf, InputLeaf)
            ]
            for key in sorted(every)
            if key.entry_point == name
            for sizes in [dict(key.sizes)]
        }
        where = partial(manifest.where, "entry_points", name, "shardings", "inputs")
        yield from assign(spec.input_shardings, manifest.mesh, calls, where)[1]


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
        ("entry_points", name, "fixtures", key): table(entry.get("fixtures")).get(key)
        for name, entry in tables(data.get("entry_points"))
        for key in ("file", "results")
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
    accepted = {
        name: Dimension(
            minimum=dimension.range[0],
            maximum=dimension.range[1],
            multiple_of=dimension.multiple_of,
        )
        for name, dimension in sorted(model.dimensions.items())
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
                source=_file(weights.source, root),
                init=weights.init,
                shardings=read_shardings(weights.shardings),
            )
            for name, weights in sorted(model.weights.items())
        },
        dimensions={
            name: DimensionSpec(known, sizes_of(model.dimensions[name].profiles, known))
            for name, known in accepted.items()
        },
        entry_points={
            name: _entry_point(entry, inputs[name], root)
            for name, entry in sorted(model.entry_points.items())
        },
        overrides={
            target: _overrides(override, accepted)
            for target, override in sorted(model.target.items())
        },
        gates=gates_of(model.gates),
        mesh=model.mesh,
    )


def _file(text: str | None, root: Path) -> SourceFile | None:
    # Not resolved: whoever records what was read shall hear of the link, not of its target.
    return None if text is None else SourceFile(text, root / text)


def _entry_point(
    entry: EntryPointModel, inputs: Mapping[str, InputTree | None], root: Path
) -> EntryPointSpec:
    ranges = {leaf: (low, high) for leaf, (low, high) in sorted(entry.fixtures.ranges.items())}
    return EntryPointSpec(
        function=entry.function,
        bind=entry.bind,
        inputs={key: tree for key, tree in inputs.items() if tree is not None},
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
            file=_file(entry.fixtures.file, root),
            seed=entry.fixtures.seed or 0,
            ranges=ranges,
            results=_file(entry.fixtures.results, root),
        ),
        input_shardings=read_shardings(entry.shardings.inputs),
        output_shardings=read_shardings(entry.shardings.outputs),
    )


def _overrides(override: TargetProfilesModel, accepted: Mapping[str, Dimension]) -> Overrides:
    return Overrides(
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


def _listed(profiles: Iterable[Sizes]) -> tuple[Sizes, ...]:
    """Profiles of a list, as a grid would have them."""
    points = [dict(sorted(sizes.items())) for sizes in profiles]
    return tuple(sorted(points, key=lambda sizes: tuple(sizes.values())))
