"""The build manifest: which functions to build, at which shapes, with which weights and targets.

`read_build_manifest` reports every problem of a file at once; docs/build-manifest.md lists the
keys.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from aotc.config import document as toml
from aotc.config import relations, toml_source
from aotc.config.document import Document
from aotc.config.fields import Name, Size
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
from aotc.config.problem import Problem
from aotc.config.relations import Inputs, table, tables
from aotc.config.toml_source import KeyPath
from aotc.config.validation import validate
from aotc.errors import raise_if

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
    "Size",
    "SourceFile",
    "WeightsSpec",
    "dimensions_of",
    "leaf_paths",
    "profiles_of",
    "read_build_manifest",
]

SCHEMA = 1


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
    result gives the structure, and the values where there is no source.
    """

    source: SourceFile | None
    init: str | None


@dataclass(frozen=True, slots=True)
class DimensionSpec:
    """minimum, maximum: accepted sizes, both included.  profiles: sizes compiled for, sorted."""

    minimum: int
    maximum: int
    profiles: tuple[int, ...]


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
    whose buffers a call may reuse.  rtol, atol: the tolerance its executables are held to.
    """

    function: str
    bind: Mapping[str, str]
    inputs: Mapping[str, InputTree]
    static: Mapping[str, Any]
    donate: tuple[str, ...]
    rtol: float
    atol: float
    fixtures: FixtureSpec


@dataclass(frozen=True, slots=True)
class BuildManifest:
    """What a person asked for.

    path: as the user typed it.  root: the manifest's folder, absolute; neither enters a bundle.
    text: the file's bytes.  lines: by key path.  targets: as written.
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

    def where(self, *keys: str | int) -> str:
        """For findings: "manifests/digits.toml:12 entry_points.predict.function"."""
        return toml_source.place(self.path, self.lines, keys)


def read_build_manifest(path: Path) -> BuildManifest:
    """Read and check a build manifest.

    Raises BuildManifestError with every problem found: AOTC-E801 unreadable, E802 not TOML, E803
    unknown key, E804 missing key, E805 wrong type or value, E806 unknown reference, E807 conflict
    or duplicate, E808 missing file, E809 never used, E810 another schema. E801, E802 and E810 end
    the reading.
    """
    document = toml.read(path, "build manifest")
    toml.require_schema(document, SCHEMA)
    data = document.data
    root = path.resolve().parent
    model, problems = validate(data, BuildManifestModel)
    inputs, input_problems = _read_inputs(data)
    problems.extend(input_problems)
    problems.extend(relations.check(data, inputs))
    problems.extend(_missing_files(data, root))
    raise_if(document.findings(problems))
    assert model is not None, "without problems there is a model"
    return _manifest(document, root, model, inputs)


def profiles_of(
    entry_point: EntryPointSpec, dimensions: Mapping[str, DimensionSpec]
) -> tuple[dict[str, int], ...]:
    """Every assignment of the dimensions an entry point uses, sorted; one empty one if none."""
    used = sorted({name for tree in entry_point.inputs.values() for name in dimensions_of(tree)})
    choices = [dimensions[name].profiles for name in used]
    return tuple(dict(zip(used, sizes, strict=True)) for sizes in product(*choices))


def _read_inputs(data: Mapping[str, Any]) -> tuple[Inputs, list[Problem]]:
    enable_x64 = data.get("enable_x64", False)
    reader = InputReader(
        dimensions=relations.declared(data, "dimensions"),
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
        return None if text is None else SourceFile(text, (root / text).resolve())

    def entry_point(name: str, entry: EntryPointModel) -> EntryPointSpec:
        trees = {key: tree for key, tree in inputs[name].items() if tree is not None}
        ranges = {leaf: (low, high) for leaf, (low, high) in sorted(entry.fixtures.ranges.items())}
        return EntryPointSpec(
            function=entry.function,
            bind=entry.bind,
            inputs=trees,
            static=entry.static,
            donate=tuple(entry.donate),
            rtol=entry.tolerance.rtol,
            atol=entry.tolerance.atol,
            fixtures=FixtureSpec(
                file=file(entry.fixtures.file), seed=entry.fixtures.seed or 0, ranges=ranges
            ),
        )

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
            name: WeightsSpec(source=file(weights.source), init=weights.init)
            for name, weights in sorted(model.weights.items())
        },
        dimensions={
            name: DimensionSpec(
                minimum=dimension.range[0],
                maximum=dimension.range[1],
                profiles=tuple(sorted(dimension.profiles)),
            )
            for name, dimension in sorted(model.dimensions.items())
        },
        entry_points={
            name: entry_point(name, entry) for name, entry in sorted(model.entry_points.items())
        },
    )
