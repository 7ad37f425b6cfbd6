"""The values that flow through a build, each made from the one before.

    BuildManifest -> CapturedEntryPoint -> Module -> Executable -> Bundle -> Attestation

All are frozen. The build manifest and target file types are pydantic models in `aotc.config`; what
ends up in a bundle are `aotc_runtime.schema` types, used here directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from aotc.base.evidence import (
    AppliedPrecision,
    ControlFlow,
    Coverage,
    ExecutableEvidence,
    ModelOrigin,
)
from aotc.base.source_locations import EntryPointLines
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.schema.pytrees import Tree

if TYPE_CHECKING:
    from numpy import dtype
    from numpy.typing import NDArray

type ByTarget[V] = Mapping[str, Mapping[ExecutableKey, V]]
"""A value for each executable of each target, by the target's name."""

type Chunk = bytes | memoryview


@runtime_checkable
class Stored(Protocol):
    """A tensor in a file that is read in chunks."""

    @property
    def dtype(self) -> dtype[Any]:
        """The element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield its bytes, little-endian and in C order."""


type Tensor = NDArray[Any] | Stored

UNTRACED = ""
"""In place of the digest of a program that could not be traced. Plain JAX runs it and reports the
reason; its results are not cached.
"""

FILE_STEM_MAX = 160
"""Characters; a file name may have 255 bytes, and prefixes and suffixes are added."""


def file_stem(key: ExecutableKey) -> str:
    """Return the stem of an executable's files: its label, or a digest of a long label."""
    label = key.label
    return label if len(label) <= FILE_STEM_MAX else sha256(label.encode()).removeprefix("sha256:")


def fixture_file(folder: Path, key: ExecutableKey) -> Path:
    """Return the safetensors file of a fixture and its reference results in a build's folder."""
    return folder / f"fixture.{file_stem(key)}.safetensors"


@dataclass(frozen=True, slots=True)
class Module:
    """The StableHLO of one entry point at one profile, as a versioned portable artifact.

    `artifact` has no locations, paths or names of the program; `custom_call_targets` is sorted.
    """

    artifact: bytes
    digest: str
    stablehlo_version: str
    custom_call_targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CapturedProfile:
    """One entry point traced at one shape profile.

    `sizes` is by dimension; `arguments` are the module's parameters in order; shapes are concrete,
    in leaf order. `module` is for CPUs, or for the first platform if it is lowered for no CPU;
    `others` has the platforms where jax lowers differently.
    """

    sizes: dict[str, int]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    arguments: tuple[bundle_manifest.Argument, ...]
    module: Module
    control_flow: ControlFlow = field(default_factory=ControlFlow)
    others: dict[str, Module] = field(default_factory=dict)

    def module_for(self, platform: str) -> Module:
        """Return the module to compile for a platform."""
        return self.others.get(platform, self.module)


@dataclass(frozen=True, slots=True)
class CapturedSymbolic:
    """A function traced at all its accepted sizes at once, with the module's arguments in order."""

    module: Module
    arguments: tuple[bundle_manifest.Argument, ...]


@dataclass(frozen=True, slots=True)
class CapturedEntryPoint:
    """A function traced at every profile: all that a bundle has of it except executables.

    Attributes:
        specialized: Dimension to the place where the program decides by its size.
        counted: Padded or split dimension to the place where the program computes with its size.
        tried: Dimensions that may be split by trials alone: an exported function hides operations.
        mesh: Of the devices that it runs on.
        lines: Of the coverage and of the decisions by size.
        calls: Custom call to the line of the program that makes it.
        recorded: Whether fixture results were recorded elsewhere, not computed by plain JAX here.
        model: The file that it was made from; None for a function.
        uncompiled: Label to digest of programs that only plain JAX runs: at the sizes of trials,
            and on one device instead of a mesh. UNTRACED if it could not be traced there.
        precision: Of its weights; None for the program as it is written.
        largest: By dimension of which one executable serves every size, the largest size.
    """

    name: str
    function: str
    parameters: tuple[bundle_manifest.Parameter, ...]
    inputs: tuple[bundle_manifest.TensorSpec, ...]
    result: Tree
    outputs: tuple[bundle_manifest.TensorSpec, ...]
    dimensions: tuple[str, ...]
    bound: dict[str, str]
    static: dict[str, str]
    lifted: tuple[bundle_manifest.LiftedConstant, ...]
    profiles: tuple[CapturedProfile, ...]
    specialized: dict[str, str] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    symbolic: CapturedSymbolic | None = None
    mesh: bundle_manifest.Mesh | None = None
    coverage: Coverage = field(default_factory=Coverage)
    lines: EntryPointLines = field(default_factory=EntryPointLines)
    calls: dict[str, str] = field(default_factory=dict)
    recorded: bool = False
    model: ModelOrigin | None = None
    uncompiled: dict[str, str] = field(default_factory=dict)
    precision: AppliedPrecision | None = None
    largest: dict[str, int] = field(default_factory=dict)

    @property
    def by_key(self) -> dict[ExecutableKey, CapturedProfile]:
        """Map the key of each profile's executables to the profile, in order."""
        return {executable_key(self.name, each.sizes): each for each in self.profiles}

    def compiled(self, profile: CapturedProfile) -> ExecutableKey:
        """Return the key of the profile that is compiled for this one: itself without a range."""
        return executable_key(self.name, {**profile.sizes, **self.largest})


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package; `files` is the digest of its list of files."""

    version: str
    files: str


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """Everything that the capture learned from a build manifest's program, without arrays.

    Digests are those of the bytes that were read, even if the file changed later.

    Attributes:
        sources: The program's own code files (`aotc.capture.project_files`) to their digests.
        read: Other files of the program that it opened, to their digests.
        files: Weights and fixtures that the manifest names, to their digests.
        weights: Set name to origin ("source", "init", "closure").
        shardings: Of the weights, by set and tensor; others are replicated.
        packages: By name, those that the capture had imported.
        xla_flags: The program's own value of this variable, which has no effect.
        jax_options: Digest of jax's options as the program left them.
    """

    entry_points: dict[str, CapturedEntryPoint]
    weights: dict[str, str]
    sources: dict[str, str]
    read: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    shardings: dict[str, dict[str, bundle_manifest.Sharding]] = field(default_factory=dict)
    xla_flags: str = ""
    jax_options: str = ""

    @property
    def made_from(self) -> dict[str, str]:
        """Map all files besides the manifest to their digests."""
        return self.read | self.sources | self.files

    @property
    def profiles(self) -> dict[ExecutableKey, CapturedProfile]:
        """Map the keys of all entry points' executables to their profiles."""
        return {key: each for e in self.entry_points.values() for key, each in e.by_key.items()}

    @property
    def mesh(self) -> bundle_manifest.Mesh | None:
        """The mesh that all entry points share; None for one device."""
        return next(iter(self.entry_points.values())).mesh


@dataclass(frozen=True, slots=True)
class Executable:
    """The code that a backend compiled from a module for a target.

    Attributes:
        serialized: Canonical bytes: the same module, target and toolchain give the same bytes.
        isa: Required processor features.
        tuning: Attributes that require nothing.
        diagnostics: Lines that the compiler printed.
        captured: The module's parameters that are constants in it.
        tuned: How its compile options were chosen, if they were.
        compilation: For an accelerator, the same for all executables of a target.
        evidence: Facts that its backend reports, if any.
        platform: Its platform if a target has executables of several engines; "" for the target's.
    """

    serialized: bytes
    digest: str
    isa: tuple[str, ...]
    tuning: tuple[str, ...]
    custom_call_targets: tuple[str, ...]
    memory: bundle_manifest.Memory
    cost: bundle_manifest.Cost
    thunks: dict[str, int]
    compile_seconds: float
    diagnostics: tuple[str, ...] = ()
    captured: tuple[int, ...] = ()
    tuned: bundle_manifest.Tuned | None = None
    compilation: bundle_manifest.Compilation | None = None
    evidence: ExecutableEvidence | None = None
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A packed bundle on disk: manifests by target name, and the size of the file or folder."""

    path: Path
    root_digest: str
    manifests: dict[str, bundle_manifest.BundleManifest]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Attestation:
    """A signed in-toto statement about a root digest; `envelope` is DSSE JSON."""

    root_digest: str
    key_id: str
    envelope: bytes


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One executable to compile: a module for a target.

    Attributes:
        label: For progress, e.g. predict[batch=8].
        options: Compiler options of this executable besides the target's.
        constants: By index, values of module parameters that become constants; float32, float64 or
            signed integers.
        weights: Indexes of module parameters that are bound at load.
        mesh: Its `devices` are XLA's device assignment: partition i runs on device `devices[i]`.
            None for one device.
        calls: For messages, custom call to the line of the program that makes it.
        dimension: That of which the executable serves every size; "" for none.
        artifacts: By its size, the largest first, the module at several sizes.
    """

    label: str
    module: Module
    target: bundle_manifest.Target
    options: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    mesh: bundle_manifest.Mesh | None = None
    calls: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[int, ...] = ()
    dimension: str = ""
    artifacts: Mapping[int, bytes] = field(default_factory=dict)
