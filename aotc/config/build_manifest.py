"""Reads build manifests: which functions to build, at which shapes, with which weights and targets.

`read_build_manifest` reports every problem of a file at once; docs/build-manifest.md lists the
keys. The values that it returns are defined in `aotc.config.manifest_specs`, and may be imported
from here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from aotc.base.errors import raise_if
from aotc.config import manifest_relations
from aotc.config import toml_document as toml
from aotc.config.checkpoint_files import INDEX, ORBAX, SINGLE, main_file
from aotc.config.dimension_specs import DimensionSpec
from aotc.config.field_types import Name, Size
from aotc.config.input_specs import (
    InputDict,
    InputLeaf,
    InputLike,
    InputList,
    InputTree,
    dimensions_of,
    leaf_paths,
)
from aotc.config.manifest_problem import Problem, Refused
from aotc.config.manifest_specs import (
    BuildManifest,
    EntryPointSpec,
    FixtureSpec,
    ManifestKeys,
    Overrides,
    SourceFile,
    WeightsSpec,
    profiles_of,
)
from aotc.config.routing_policies import at_once
from aotc.config.sharding_specs import assign
from aotc.config.toml_document import Document
from aotc.config.toml_validation import Reading, read_section
from aotc_runtime.base.errors import Finding
from aotc_runtime.formats.toml_source import KeyPath

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
_KEYS = TypeAdapter(ManifestKeys)


def read_build_manifest(path: Path, *, written: Path | None = None) -> BuildManifest:
    """Read and check a build manifest.

    written: a file that the caller is about to write, which need not exist yet.
    Raises BuildManifestError with every problem found: AOTC-E801 unreadable, E802 not TOML, E803
    unknown key, E804 missing key, E805 wrong type or value, E806 unknown reference, E807 conflict
    or duplicate, E808 missing file, E809 never used, E810 another schema, E814 a sharding that
    does not tile its array. E801, E802 and E810 end the reading.
    """
    return _checked(toml.read(path, KIND), written)


def _checked(document: Document, written: Path | None = None) -> BuildManifest:
    toml.require_schema(document, SCHEMA)
    reading = Reading(document.path.resolve().parent)
    keys, problems = read_section(document.data, _KEYS, reading)
    problems.extend(manifest_relations.check(keys, Refused(problems)))
    problems.extend(_missing_files(keys, written))
    document.refuse(problems)
    manifest = BuildManifest(
        **{field.name: getattr(keys, field.name) for field in fields(keys)},
        path=document.path,
        root=reading.root,
        text=document.source,
        lines=document.lines,
    )
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


def _missing_files(manifest: ManifestKeys, written: Path | None) -> Iterator[Problem]:
    new = None if written is None else written.absolute()
    named: dict[KeyPath, SourceFile | None] = {}
    for name, weights in manifest.weights.items():
        for prefix, source in (weights.source or {}).items():
            at: KeyPath = ("weights", name, "source", *([prefix] if prefix else ()))
            named[at] = main_file(source)
    for name, entry in manifest.entry_points.items():
        named["entry_points", name, "source"] = entry.source
        named["entry_points", name, "fixtures", "file"] = entry.fixtures.file
        named["entry_points", name, "fixtures", "results"] = entry.fixtures.results
        named["entry_points", name, "fixtures", "expected"] = entry.fixtures.expected
    for path, file in named.items():
        if file is None or file.path.absolute() == new:
            continue
        if reason := _why_no_file(file.path):
            if path[0] == "weights" and file.path.is_dir():
                reason = f"a folder without {INDEX}, {SINGLE} or {ORBAX} (of Orbax)"
            yield Problem(
                code="AOTC-E808",
                path=path,
                expected="a file; a relative path starts at the manifest's folder",
                found=f"{file.text}: {reason}",
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
