"""What a build manifest asks for, as frozen values; `aotc.config.build_manifest` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aotc.config.dimensions import DimensionSpec
from aotc.config.gates import Gates
from aotc.config.inputs import InputTree, dimensions_of
from aotc.config.profiles import Sizes, grid
from aotc_runtime.formats import toml_source
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.expressions import parse_relation
from aotc_runtime.schema.labels import ExecutableKey, executable_key
from aotc_runtime.schema.manifest import DimensionPolicy
from aotc_runtime.schema.mesh import Sharding


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that the manifest names.

    text: as written.  path: where it is, absolute; it never enters a bundle.
    """

    text: str
    path: Path


@dataclass(frozen=True, slots=True)
class WeightsSpec:
    """A weights set, with a source or an init function or both.

    source: a safetensors file with the values.  init: a function whose result gives the structure,
    and the values where there is no source.  shardings: by pattern of tensor names.
    """

    source: SourceFile | None
    init: str | None
    shardings: Mapping[str, Sharding]


@dataclass(frozen=True, slots=True)
class FixtureSpec:
    """Recorded inputs (file) or, without a file, random ones (seed).

    ranges: path of an array to the inclusive [low, high] its numbers are drawn from; integers for
    an array of integers.  results: what the function gives for the recorded inputs, by whoever
    could run it; None if plain JAX runs it here.
    """

    file: SourceFile | None
    seed: int
    ranges: Mapping[str, tuple[float, float]]
    results: SourceFile | None = None


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
    out_of_profile: Mapping[str, DimensionPolicy]
    rtol: float
    atol: float
    fixtures: FixtureSpec
    input_shardings: Mapping[str, Sharding]
    output_shardings: Mapping[str, Sharding]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a manifest says of one target alone.

    dimensions: sizes to compile for, by dimension.  entry_points: profiles, by entry point.
    memory_limit: bytes that the weights and a call of any profile may take together; None for no
    limit.  devices: how many the target has, instead of what its file says.
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
        """The profiles that an entry point is compiled for, sorted; a single empty one if it uses
        no dimensions. target: as the manifest writes it.
        """
        spec, dimensions = self.entry_points[entry_point], self.dimensions
        if changed := self.overrides.get(target):
            dimensions = {
                name: replace(known, profiles=changed.dimensions.get(name, known.profiles))
                for name, known in dimensions.items()
            }
            spec = replace(spec, profiles=changed.entry_points.get(entry_point, spec.profiles))
        return profiles_of(spec, dimensions)

    def executables(self, target: str) -> tuple[ExecutableKey, ...]:
        """What all entry points are compiled for, in their order. target: as the manifest writes
        it.
        """
        return tuple(
            executable_key(name, sizes)
            for name in self.entry_points
            for sizes in self.profiles(name, target)
        )

    def files(self) -> Iterator[SourceFile]:
        """The files of weights and fixtures; one that is named twice comes twice."""
        for weights in self.weights.values():
            if weights.source is not None:
                yield weights.source
        for entry_point in self.entry_points.values():
            named = (entry_point.fixtures.file, entry_point.fixtures.results)
            yield from (file for file in named if file is not None)

    def where(self, *keys: str | int) -> str:
        """A place for findings, as "manifests/digits.toml:12 entry_points.predict.function"."""
        return toml_source.place(self.path, self.lines, keys)


def profiles_of(
    entry_point: EntryPointSpec, dimensions: Mapping[str, DimensionSpec]
) -> tuple[Sizes, ...]:
    """The profiles of an entry point for targets without overrides, as `BuildManifest.profiles`."""
    if entry_point.profiles:
        return entry_point.profiles
    used = {name for tree in entry_point.inputs.values() for name in dimensions_of(tree)}
    sizes = {name: dimensions[name].profiles for name in used}
    return grid(used, sizes, map(parse_relation, entry_point.relations))
