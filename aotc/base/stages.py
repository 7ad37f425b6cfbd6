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

from aotc.base.evidence import ControlFlow, Coverage, ExecutableEvidence, ModelOrigin
from aotc.base.source_locations import EntryPointLines
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import (
    Argument,
    BundleManifest,
    Compilation,
    Cost,
    LiftedConstant,
    Memory,
    Mesh,
    Parameter,
    Sharding,
    Target,
    TensorSpec,
    Tuned,
)
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
    """A tensor that lies in a file, of which only a piece is in memory at a time."""

    @property
    def dtype(self) -> dtype[Any]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def nbytes(self) -> int: ...

    def chunks(self) -> Iterator[Chunk]:
        """Its bytes, little-endian and in C order."""


type Tensor = NDArray[Any] | Stored

UNTRACED = ""
"""In place of the digest of a program that could not be traced. Plain JAX runs it, and says why;
its results are not looked up.
"""

FILE_STEM_MAX = 160
"""Characters; a file name may have 255 bytes, and more is put around the stem."""


def file_stem(key: ExecutableKey) -> str:
    """What the files about an executable are named by: its label, or a digest of a longer one."""
    label = key.label
    return label if len(label) <= FILE_STEM_MAX else sha256(label.encode()).removeprefix("sha256:")


def fixture_file(folder: Path, key: ExecutableKey) -> Path:
    """A fixture with its reference outputs, in the folder of a build; safetensors."""
    return folder / f"fixture.{file_stem(key)}.safetensors"


@dataclass(frozen=True, slots=True)
class Module:
    """The StableHLO of one entry point at one profile, as a versioned portable artifact.

    artifact: portable artifact bytes without locations, source paths or names from the program.
    custom_call_targets: every custom call in it, sorted.
    """

    artifact: bytes
    digest: str
    stablehlo_version: str
    custom_call_targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CapturedProfile:
    """One entry point traced at one shape profile.

    sizes: dimension to size.  arguments: the module's parameters, in order.  input_shapes,
    output_shapes: concrete, in leaf order.  module: for CPUs, or for the first platform if it is
    lowered for none.  others: by platform, where jax lowers to something else there.
    """

    sizes: dict[str, int]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    arguments: tuple[Argument, ...]
    module: Module
    control_flow: ControlFlow = field(default_factory=ControlFlow)
    others: dict[str, Module] = field(default_factory=dict)

    def module_for(self, platform: str) -> Module:
        """What is compiled for targets of a platform."""
        return self.others.get(platform, self.module)


@dataclass(frozen=True, slots=True)
class CapturedSymbolic:
    """A function traced at all its accepted sizes at once. arguments: the module's, in order."""

    module: Module
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class CapturedEntryPoint:
    """A function traced at every shape profile: what a bundle says of it but its executables.

    specialized: dimension to where the program decides by its size.  undetermined: dimension to why
    it could not be traced at all its sizes at once; its axes were found by trial.  counted:
    dimension to where the program computes with its size, of those that are padded or split.  mesh:
    of the devices that it runs on.  lines: of the coverage and of what decides by a size.  calls:
    custom call to the line of the program that makes it.  recorded: whether the results of its
    fixtures were recorded elsewhere, instead of computed by plain JAX here.  model: the file that
    it was made of, if it was no function.  unexpected: labels of the profiles that nothing was
    recorded of, where a framework's results are compared.  uncompiled: digests of the program where
    plain JAX runs it and no executable does, by label: at the sizes of trials, and on one device
    instead of those of a mesh; UNTRACED for one that could not be traced there.
    """

    name: str
    function: str
    parameters: tuple[Parameter, ...]
    inputs: tuple[TensorSpec, ...]
    result: Tree
    outputs: tuple[TensorSpec, ...]
    dimensions: tuple[str, ...]
    bound: dict[str, str]
    static: dict[str, str]
    lifted: tuple[LiftedConstant, ...]
    profiles: tuple[CapturedProfile, ...]
    specialized: dict[str, str] = field(default_factory=dict)
    undetermined: dict[str, str] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)
    symbolic: CapturedSymbolic | None = None
    mesh: Mesh | None = None
    coverage: Coverage = field(default_factory=Coverage)
    lines: EntryPointLines = field(default_factory=EntryPointLines)
    calls: dict[str, str] = field(default_factory=dict)
    recorded: bool = False
    model: ModelOrigin | None = None
    unexpected: tuple[str, ...] = ()
    uncompiled: dict[str, str] = field(default_factory=dict)

    @property
    def by_key(self) -> dict[ExecutableKey, CapturedProfile]:
        """The profiles, each by the key of its executables, in their order."""
        return {executable_key(self.name, each.sizes): each for each in self.profiles}


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package. files: digest of what it says of its files."""

    version: str
    files: str


@dataclass(frozen=True, slots=True)
class CapturedProgram:
    """Everything the capture learned from a build manifest's program, without the arrays.

    sources: the program's own files of code (`aotc.capture.project_files`) to their digests.  read:
    others of its files that it opened, to theirs.  files: weights and fixtures that the manifest
    names, to theirs.  All are of what was read, whatever became of the file.  weights: set name to
    origin ("source", "init", "closure").  shardings: of the weights, by set and tensor; what is
    missing is not cut.  packages: what the capture had imported, by name.  xla_flags: what the
    program has set this variable to, without effect.  jax_options: the digest of jax's options as
    the program left them.
    """

    entry_points: dict[str, CapturedEntryPoint]
    weights: dict[str, str]
    sources: dict[str, str]
    read: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    shardings: dict[str, dict[str, Sharding]] = field(default_factory=dict)
    xla_flags: str = ""
    jax_options: str = ""

    @property
    def made_from(self) -> dict[str, str]:
        """All files beside the manifest, to their digests."""
        return self.read | self.sources | self.files

    @property
    def profiles(self) -> dict[ExecutableKey, CapturedProfile]:
        """The profiles of all entry points."""
        return {key: each for e in self.entry_points.values() for key, each in e.by_key.items()}

    @property
    def mesh(self) -> Mesh | None:
        """The mesh of the devices that it runs on, which all entry points share; None for one
        device.
        """
        return next(iter(self.entry_points.values())).mesh


@dataclass(frozen=True, slots=True)
class Executable:
    """What the backend made of a module for a target.

    serialized: canonical bytes: the same module, target and toolchain give the same bytes.
    isa: required processor features; tuning: attributes that require nothing.
    diagnostics: lines the compiler printed, for people.  captured: the module's parameters that are
    constants in it.  tuned: how its compile options were chosen, if they were.  compilation: for an
    accelerator, the same for all executables of a target.  evidence: what its backend can tell of
    it, if it can.  platform: that it is for, where it stands beside those of other engines; "" for
    the target's.
    """

    serialized: bytes
    digest: str
    isa: tuple[str, ...]
    tuning: tuple[str, ...]
    custom_call_targets: tuple[str, ...]
    memory: Memory
    cost: Cost
    thunks: dict[str, int]
    compile_seconds: float
    diagnostics: tuple[str, ...] = ()
    captured: tuple[int, ...] = ()
    tuned: Tuned | None = None
    compilation: Compilation | None = None
    evidence: ExecutableEvidence | None = None
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A packed bundle on disk. manifests: by target name; bytes: size of the file or folder."""

    path: Path
    root_digest: str
    manifests: dict[str, BundleManifest]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Attestation:
    """A signed in-toto statement about a root digest. envelope: DSSE JSON bytes."""

    root_digest: str
    key_id: str
    envelope: bytes


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One executable to make: a module for a target. label: for progress, e.g. predict[batch=8].

    options: of the compiler, for this executable, beside the target's.  constants: values of the
    module's parameters that become constants, by index; float32, float64 or signed integers.
    weights: the module's parameters that are bound at load, by index.
    mesh: of the devices that it runs on, whose `devices` are XLA's device assignment: partition i
    runs on device `devices[i]`; None for one device.  calls: for messages, custom call to the line
    of the program that makes it.
    """

    label: str
    module: Module
    target: Target
    options: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    mesh: Mesh | None = None
    calls: Mapping[str, str] = field(default_factory=dict)
    weights: tuple[int, ...] = ()
