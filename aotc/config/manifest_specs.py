"""Sections of a build manifest: keys, types and defaults, as frozen values.

`aotc.config.build_manifest` reads them; `aotc.config.manifest_relations` compares several sections.
"""

import glob
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, ValidationInfo

from aotc.base.evidence import LIBRARIES
from aotc.config import precision_specs
from aotc.config.dimension_specs import RANGE, DimensionSpec, Rule, Sizes, SizesRule, grid
from aotc.config.evaluation_specs import EvaluationSpec
from aotc.config.field_types import (
    Arrayed,
    Automatic,
    ByName,
    Bytes,
    Distinct,
    Error,
    FileText,
    FunctionReference,
    Identifier,
    Line,
    Name,
    Number,
    PlainValue,
    Size,
    Version,
    accepting,
    refusal,
)
from aotc.config.input_specs import Input, InputLeaf, InputLike, all_leaves, dimensions_of
from aotc.config.manifest_problem import Problem
from aotc.config.routing_policies import PolicyValue, at_once
from aotc.config.sharding_specs import Shardings
from aotc.config.toml_validation import Section
from aotc_runtime.base.suggestions import closest, did_you_mean
from aotc_runtime.formats import toml_source
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import DEVICES_MAX, DimensionPolicy, Pad
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.schema.size_expressions import parse_relation

RESERVED_WEIGHTS = "closure"
"""The weights set of arrays that functions close over."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that the manifest names, as written and by absolute path, which enters no bundle."""

    text: str
    path: Path


_FILE_TEXT = TypeAdapter[str](FileText)


def _file(raw: object, info: ValidationInfo) -> SourceFile:
    text = _FILE_TEXT.validate_python(raw, strict=True)
    assert isinstance(info.context, Path), "the manifest's folder"
    # Not resolved, so that what records the files that were read names the link, not its target.
    return SourceFile(text, info.context / text)


File = Annotated[SourceFile, PlainValidator(_file)]


def _sources(raw: object, info: ValidationInfo) -> dict[str, SourceFile]:
    if not isinstance(raw, dict):
        return {"": _file(raw, info)}
    if not raw or not all(raw):
        hint = 'write source = { encoder = "encoder.safetensors", decoder = "decoder" }'
        raise refusal("a file, a folder, or a table of prefixes to these", hint)
    return {prefix: _file(value, info) for prefix, value in raw.items()}


Sources = Annotated[Mapping[str, SourceFile], PlainValidator(_sources)]


def _renames(raw: object) -> dict[str, str]:
    hint = r"write rename = { '^model\.' = '', '\.' = '/' }"
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise refusal("a table of regular expressions to replacements", hint)
    for pattern, replacement in raw.items():
        try:
            re.compile(f"{pattern}|").sub(replacement, "")
        except (re.error, IndexError) as error:
            expected = "a regular expression of Python, and a replacement for what it matches"
            raise refusal(
                expected, hint, found=f"{pattern!r} to {replacement!r}: {error}"
            ) from None
    return raw


@dataclass(frozen=True, slots=True)
class WeightsSpec(Section):
    """`[weights.NAME]`: the origin of bound parameters, a source, an init function or both.

    `source` maps the prefix of tensor names to a safetensors file or a folder; a single one has no
    prefix. `init` is a function whose result gives the structure, and the values where there is no
    source. `rename` maps regular expressions to replacements, in order. Floating-point tensors are
    cast to `dtype`. `shardings` are by pattern of tensor names.
    """

    source: Sources | None = None
    init: FunctionReference | None = None
    rename: Annotated[Mapping[str, str], PlainValidator(_renames)] = field(default_factory=dict)
    dtype: Literal["bfloat16", "float16", "float32", "float64"] | None = None
    shardings: Shardings = field(default_factory=dict)

    @classmethod
    def together(cls, keys: Collection[str]) -> Iterator[Problem]:
        """Require a source or an init function."""
        if not {"source", "init"} & {*keys}:
            yield Problem(
                "AOTC-E804",
                (),
                'add source = "params.safetensors", or init = "package.module:function"',
                expected="source, init",
            )
        for key in sorted({"rename", "dtype"} & {*keys} if "source" not in keys else ()):
            yield Problem(
                "AOTC-E804",
                (key,),
                "add source, or let the init function return the tensors so",
                expected="source",
                cause="key-requires-another-key",
            )


WeightsName = Annotated[
    Name,
    accepting(
        lambda v: v != RESERVED_WEIGHTS,
        f"a name other than {RESERVED_WEIGHTS}",
        "the build keeps arrays under it that functions close over; choose another name",
    ),
]
"""The name of a weights set."""

Profiles = Annotated[
    tuple[Mapping[Identifier, Size], ...],
    Arrayed,
    Distinct,
    accepting(bool, "at least one profile", "name the sizes to compile for"),
]
"""An entry point's own list of profiles, each a size for every dimension."""


@dataclass(frozen=True, slots=True)
class ToleranceSpec(Section):
    """The rule |actual - expected| <= atol + rtol * |expected|."""

    rtol: Error = 1e-5
    atol: Error = 1e-6


_NUMBERS = TypeAdapter[tuple[float, ...]](
    Annotated[
        tuple[Number, ...],
        accepting(lambda v: len(v) == 2, "[lowest, highest]", "give both ends"),
        accepting(lambda v: v[0] <= v[1], "[lowest, highest]", "swap the two"),
    ]
)


def _ends(raw: object) -> tuple[float, float]:
    lowest, highest = _NUMBERS.validate_python(raw)
    return lowest, highest


@dataclass(frozen=True, slots=True)
class FixtureSpec(Section):
    """`[entry_points.NAME.fixtures]`: the inputs of every executable's check.

    They are recorded (`file`) or random (`seed`). `results` holds the function's results for
    recorded inputs, computed elsewhere; None if plain JAX computes them here. `expected` holds
    those of the framework that a model comes from. `ranges` maps the path of an array to the
    inclusive [low, high] of its numbers, in trials and random inputs; integers for integers.
    """

    file: File | None = None
    results: File | None = None
    expected: File | None = None
    seed: Annotated[
        int, accepting(lambda v: v >= 0, "an integer of at least 0", "choose another")
    ] = 0
    ranges: Annotated[
        Mapping[str, Annotated[tuple[float, float], PlainValidator(_ends)]], ByName
    ] = field(default_factory=dict)

    @classmethod
    def together(cls, keys: Collection[str]) -> Iterator[Problem]:
        """Require either recorded or random inputs, and results only of recorded ones."""
        if {"file", "seed"} <= {*keys}:
            yield Problem("AOTC-E807", ("seed",), "remove one of the two", found="file and seed")
        for key in ("results", "expected"):
            if key in keys and "file" not in keys:
                yield Problem(
                    "AOTC-E804",
                    (key,),
                    'add file = "inputs.npz"',
                    expected="file, with the inputs of these results",
                    cause="key-requires-another-key",
                )
        if {"results", "expected"} <= {*keys}:
            yield Problem(
                "AOTC-E807", ("expected",), "remove one of the two", found="expected and results"
            )


@dataclass(frozen=True, slots=True)
class ShardingsSpec(Section):
    """`[entry_points.NAME.shardings]` by leaf path: see `aotc.config.sharding_specs`."""

    inputs: Shardings = field(default_factory=dict)
    outputs: Shardings = field(default_factory=dict)


_OPERATOR = re.compile(r"(<=|>=|==)")


def _relation(text: str) -> str:
    """Return a relation as bundles write it, with blanks only around the operator."""
    normalized = " ".join("".join(part.split()) for part in _OPERATOR.split(text))
    try:
        parse_relation(normalized)
    except ValueError:
        expected = 'two sizes over dimensions and <=, >= or ==: "batch*seq <= 16384"'
        raise refusal(expected, "sizes are made of dimensions, whole numbers, +, - and *") from None
    return normalized


@dataclass(frozen=True, slots=True)
class EntryPointSpec(Section):
    """`[entry_points.NAME]`: a pure function to compile, or a model in a file.

    Every parameter of a function is in one of bind, inputs and static.

    Attributes:
        function: "" if there is a file.
        source: The model file.
        signature: The function of the model file.
        weights: The set of its weights, by default one with the entry point's name.
        bind: Parameter to weights set.
        inputs: See `aotc.config.input_specs`.
        static: Parameter to its fixed value.
        donate: Inputs whose buffers a call may reuse.
        profiles: Replaces the grid of its dimensions, if any.
        relations: As bundles write them; they hold for every profile and every accepted call.
        policies: By dimension, None for `fail`.
        tolerance: Of executables, compared with the reference.
        expected_tolerance: Of the reference, compared with the results of the model's framework.
        numerics: "finite" if neither arguments nor results are ever NaN or infinite.
        shardings: By pattern of leaf paths.
        evaluation: By a task metric; None without one.
        precision: The name of its precision; () for the program as it is written.
    """

    function: FunctionReference = ""
    source: File | None = None
    signature: Annotated[str, accepting(bool, "a name", "leave the key out")] | None = None
    weights: WeightsName | None = None
    bind: Mapping[Identifier, str] = field(default_factory=dict)
    inputs: Mapping[Identifier, Input] = field(default_factory=dict)
    static: Mapping[Identifier, PlainValue] = field(default_factory=dict)
    donate: Annotated[tuple[str, ...], Arrayed, Distinct] = ()
    profiles: Profiles = ()
    relations: Annotated[
        tuple[Annotated[str, AfterValidator(_relation)], ...], Arrayed, Distinct
    ] = ()
    policies: Annotated[Mapping[Identifier, PolicyValue], ByName, Field(alias="out_of_profile")] = (
        field(default_factory=dict)
    )
    shardings: ShardingsSpec = ShardingsSpec()
    tolerance: ToleranceSpec = ToleranceSpec()
    expected_tolerance: ToleranceSpec = ToleranceSpec(rtol=1e-4, atol=1e-5)
    numerics: Literal["ieee", "finite"] = "ieee"
    fixtures: FixtureSpec = FixtureSpec()
    evaluation: EvaluationSpec | None = None
    precision: precision_specs.PrecisionNames = ()

    @classmethod
    def together(cls, keys: Collection[str]) -> Iterator[Problem]:
        """Require a function or a file, without keys of the other."""
        either = ("function", "source")
        unknown = [key for key in keys if key not in cls.__dataclass_fields__]
        if not {*either} & {*keys} and not any(closest(key, either) for key in unknown):
            yield Problem(
                "AOTC-E804",
                ("function",),
                'add it, for example function = "digits.model:predict"',
                expected="function, source",
            )
        beside = "source" if "source" in keys else "function"
        others = ("function", "static") if "source" in keys else ("signature", "weights")
        for key in others:
            if key in keys:
                yield Problem(
                    "AOTC-E807", (key,), "remove one of the two", found=f"{key} and {beside}"
                )

    @property
    def leaves(self) -> dict[str, InputLeaf | InputLike]:
        """Map paths to the leaves of all inputs."""
        return all_leaves(self.inputs)

    @property
    def dimensions(self) -> set[str]:
        """Return the names of the dimensions that the inputs depend on."""
        return {name for tree in self.inputs.values() for name in dimensions_of(tree)}

    def ranged(self, dimensions: Mapping[str, DimensionSpec]) -> list[str]:
        """Return those of its dimensions of which one executable serves every size."""
        used = sorted(self.dimensions & dimensions.keys()) if not self.profiles else []
        return [name for name in used if dimensions[name].rule == RANGE]

    @property
    def out_of_profile(self) -> Mapping[str, DimensionPolicy]:
        """Return untested policies by dimension; without an entry it is `fail`."""
        return {name: policy for name, policy in self.policies.items() if policy is not None}

    @property
    def pads(self) -> dict[str, Pad]:
        """Return the policies of dimensions in which calls are padded, at least meanwhile."""
        plans = {name: at_once(policy) for name, policy in self.policies.items()}
        return {name: plan for name, plan in plans.items() if isinstance(plan, Pad)}

    @property
    def by_loader(self) -> set[str]:
        """Return the parameters that the loader passes, not the caller: masks and lengths."""
        return {name for pad in self.pads.values() for name in (pad.mask, pad.length) if name}


Engines = Annotated[
    tuple[Name, ...],
    Arrayed,
    Distinct,
    accepting(bool, "at least one engine", 'name them in order: engines = ["iree", "xla"]'),
]
"""Engines by name, in the order in which they compile."""


@dataclass(frozen=True, slots=True)
class TargetDimension(Section):
    """`[target.NAME.dimensions.NAME]`."""

    profiles: SizesRule | None = None


@dataclass(frozen=True, slots=True)
class TargetEntryPoint(Section):
    """`[target.NAME.entry_points.NAME]`."""

    profiles: Profiles = ()


@dataclass(frozen=True, slots=True)
class Overrides(Section):
    """`[target.NAME]`: settings of a build manifest for one target.

    `devices` replaces the count of the target's file, and `engines` those of the manifest.
    `memory_limit` limits the bytes of the weights and a call of any profile together; None for no
    limit. `of_dimensions` and `of_entry_points` replace the profiles for all targets.
    """

    devices: Annotated[Size, Field(le=DEVICES_MAX)] | None = None
    engines: Engines = ()
    memory_limit: Bytes | None = None
    of_dimensions: Annotated[Mapping[str, TargetDimension], ByName, Field(alias="dimensions")] = (
        field(default_factory=dict)
    )
    of_entry_points: Annotated[
        Mapping[str, TargetEntryPoint], ByName, Field(alias="entry_points")
    ] = field(default_factory=dict)

    @property
    def dimensions(self) -> Mapping[str, Rule]:
        """Return the compiled sizes by dimension, where this target has others."""
        changed = self.of_dimensions.items()
        return {name: own.profiles for name, own in changed if own.profiles is not None}

    @property
    def entry_points(self) -> Mapping[str, tuple[Mapping[str, int], ...]]:
        """Return the profiles by entry point, where this target has others."""
        return {name: own.profiles for name, own in self.of_entry_points.items() if own.profiles}


_OPERATION = re.compile(r"\A[a-z_]+\.[a-z0-9_]+\Z")

_Count = Annotated[int, accepting(lambda v: v >= 0, "an integer of at least 0", "0 allows none")]
_Part = Annotated[Error, accepting(lambda v: v <= 1, "a number from 0 to 1", "1 is every line")]


def _library(name: str) -> str:
    if name not in LIBRARIES:
        hint = did_you_mean(name, LIBRARIES, "see docs/concepts/evidence.md for what each does")
        raise refusal(f"one of: {', '.join(LIBRARIES)}", hint)
    return name


_Library = Annotated[str, AfterValidator(_library)]
_Operation = Annotated[
    str,
    accepting(
        lambda v: bool(_OPERATION.match(v)),
        'an operation with its dialect, such as "stablehlo.while"',
        "`aotc inspect --json` lists those of a bundle",
    ),
]


@dataclass(frozen=True, slots=True)
class Gates(Section):
    """`[gates]`: limits beyond which a build fails; None and empty allow anything.

    `max_artifact_size` counts the bytes of all blobs of a target; `max_executable_size` and
    `max_temp_memory` bytes, and `max_custom_calls` and `max_generated_kernels` numbers, of each
    executable. `forbid_libraries` lists places of work, such as "LAPACK"; `forbid_operations` those
    of modules, such as "stablehlo.while". `min_coverage`, from 0 to 1, is the share of the lines of
    each entry point's functions that were traced.
    """

    max_artifact_size: Bytes | None = None
    max_executable_size: Bytes | None = None
    max_temp_memory: Bytes | None = None
    max_custom_calls: _Count | None = None
    max_generated_kernels: _Count | None = None
    forbid_libraries: Annotated[tuple[_Library, ...], Arrayed] = ()
    forbid_operations: Annotated[tuple[_Operation, ...], Arrayed] = ()
    min_coverage: _Part | None = None

    def in_use(self) -> Iterator[str]:
        """Yield the names of the gates that are set."""
        for each in fields(self):
            if getattr(self, each.name) not in (None, ()):
                yield each.name


@dataclass(frozen=True, slots=True)
class Tune(Section):
    """`[tune]`: the choice of `aotc build --tune` among the engines of a target.

    `objective` is the figure to minimize: calls, the start of a process, or its memory; None if the
    manifest has none. With `mixed`, each executable has the engine that calls it fastest, instead
    of one for the whole target. With `auto`, a build measures briefly and repeats its choice.
    """

    objective: Literal["latency", "start", "memory"] | None = None
    mixed: bool = False
    auto: bool = False


@dataclass(frozen=True, slots=True)
class ManifestKeys(Section):
    """All keys of a build manifest.

    `targets` and `overrides` are as written. `license` and `owners` are those of the model.
    `engines` compile, in order; () for those of each target's file. `assets` are files and folders
    that travel in the bundle. `mesh` maps its axes to sizes, in order; empty for programs on one
    device.
    """

    schema: Annotated[
        int, accepting(lambda v: v == 1, "1", "write schema = 1"), Field(examples=["schema = 1"])
    ]
    name: Annotated[Name, Field(examples=['name = "digits"'])]
    version: Annotated[Version, Field(examples=['version = "1.0.0"'])]
    targets: Annotated[
        tuple[FileText, ...],
        Arrayed,
        Distinct,
        accepting(bool, "at least one target", "`aotc targets list` shows them"),
        Field(examples=['targets = ["cpu-x86-64-v3"]']),
    ]
    license: Line | None = None
    owners: Annotated[tuple[Line, ...], Arrayed, Distinct] = ()
    engines: Engines = ()
    enable_x64: bool = False
    weights: Annotated[Mapping[WeightsName, WeightsSpec], ByName] = field(default_factory=dict)
    dimensions: Annotated[Mapping[Identifier, DimensionSpec], ByName] = field(default_factory=dict)
    precision: Annotated[
        Mapping[precision_specs.PrecisionName, precision_specs.PrecisionSpec], ByName
    ] = field(default_factory=dict)
    mesh: Annotated[
        Mapping[Identifier, Size],
        accepting(
            lambda v: prod(v.values()) <= DEVICES_MAX,
            f"axes that make at most {DEVICES_MAX} devices",
            "the sizes of the axes are multiplied",
        ),
    ] = field(default_factory=dict)
    overrides: Annotated[
        Mapping[str, Overrides],
        ByName,
        Field(alias="target", examples=['targets = ["cpu-x86-64-v3"]']),
    ] = field(default_factory=dict)
    assets: Annotated[Mapping[Identifier, File], ByName] = field(default_factory=dict)
    gates: Gates = field(default_factory=Gates)
    tune: Annotated[Tune, Automatic] = field(default_factory=Tune)
    entry_points: Annotated[
        Mapping[Identifier, EntryPointSpec],
        ByName,
        accepting(bool, "at least one entry point", "add [entry_points.predict]"),
        Field(examples=["[entry_points.predict]"]),
    ] = field(kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildManifest(ManifestKeys):
    """A build manifest with its location.

    `path` is as the user typed it, and `root` is the manifest's folder, absolute; neither enters a
    bundle. `text` has the file's bytes, and `lines` the line of each key path.
    """

    path: Path
    root: Path
    text: bytes
    lines: Mapping[KeyPath, int]
    chosen: Mapping[str, precision_specs.ChosenPrecision] = field(default_factory=dict)

    def profiles(self, entry_point: str, target: str) -> tuple[Sizes, ...]:
        """Return the compiled profiles of an entry point, sorted.

        Without dimensions, this is one empty profile. `target` is as the manifest writes it.
        """
        spec, dimensions = self.entry_points[entry_point], self.dimensions
        if changed := self.overrides.get(target):
            dimensions = {
                name: replace(known, rule=changed.dimensions.get(name, known.rule))
                for name, known in dimensions.items()
            }
            spec = replace(spec, profiles=changed.entry_points.get(entry_point, spec.profiles))
        return profiles_of(spec, dimensions)

    def executables(self, target: str) -> tuple[ExecutableKey, ...]:
        """Return all executables' keys by entry point; `target` is as the manifest writes it."""
        return tuple(
            executable_key(name, sizes)
            for name in self.entry_points
            for sizes in self.profiles(name, target)
        )

    def precision_of(self, entry_point: str) -> tuple[str, precision_specs.PrecisionSpec] | None:
        """Return the name and settings of an entry point's precision; None if nothing changes.

        Of a list it is the chosen one, or the first.
        """
        stated = self.entry_points[entry_point].precision or (precision_specs.FLOAT32,)
        chosen = self.chosen.get(entry_point, precision_specs.ChosenPrecision(stated[0]))
        if chosen.precision not in self.precision:
            return None
        spec = self.precision[chosen.precision]
        kept = (*spec.keep, *map(glob.escape, chosen.keep))
        return chosen.precision, replace(spec, keep=kept)

    def files(self) -> Iterator[tuple[KeyPath, SourceFile]]:
        """Yield the files of weights, models, fixtures and evaluations, each with its key."""
        for name, weights in self.weights.items():
            for prefix, source in (weights.source or {}).items():
                yield ("weights", name, "source", *([prefix] if prefix else ())), source
        for name, entry in self.entry_points.items():
            if entry.source is not None:
                yield ("entry_points", name, "source"), entry.source
            for key in ("file", "results", "expected"):
                if (file := getattr(entry.fixtures, key)) is not None:
                    yield ("entry_points", name, "fixtures", key), file
            for data in self.evaluation_files(name):
                yield ("entry_points", name, "evaluation", "data"), data

    def evaluation_files(self, entry_point: str) -> Iterator[SourceFile]:
        """Yield the files with the data of an evaluation, sorted by name; none for a function.

        For a folder without any it is the folder, which no file is.
        """
        spec = self.entry_points[entry_point].evaluation
        if spec is None or spec.reads_function:
            return
        path = self.root / spec.data
        files = [f"{spec.data.rstrip('/')}/{each.name}" for each in sorted(path.glob("*.npz"))]
        for text in files or [spec.data]:
            yield SourceFile(text, self.root / text)

    def where(self, *keys: str | int) -> str:
        """Return a location: "manifests/digits.toml:12 entry_points.predict.function"."""
        return toml_source.place(self.path, self.lines, keys)


def profiles_of(
    entry_point: EntryPointSpec, dimensions: Mapping[str, DimensionSpec]
) -> tuple[Sizes, ...]:
    """Return the profiles of an entry point for targets without overrides."""
    if entry_point.profiles:
        points = [dict(sorted(sizes.items())) for sizes in entry_point.profiles]
        return tuple(sorted(points, key=lambda sizes: tuple(sizes.values())))
    sizes = {name: dimensions[name].profiles for name in entry_point.dimensions}
    return grid(sizes, sizes, map(parse_relation, entry_point.relations))
