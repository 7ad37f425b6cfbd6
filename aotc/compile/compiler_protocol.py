"""Interface of compilers for a kind of targets (entry points `aotc.engines`, by platform).

A kind reads its part of target files, states what a host must offer, and has a compiler, its
`Backend`. The platform also determines the engine of the runtime
(`aotc_runtime.schema.bundle_manifest`). docs/reference/targets.md shows a whole kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from msgspec import UNSET, UnsetType

from aotc.base.stages import CompileJob, Executable
from aotc.compile.target_model import TRIPLES, TargetModel
from aotc.config.manifest_problem import Problem, spell
from aotc.config.toml_document import Document
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import BuiltWith, DeviceRequirements, Target, TargetDevice

GROUP = "aotc.engines"
"""The group of entry points."""


DEFAULT = "default"
"""The name of the candidate without options."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compilation variant of an executable.

    `options` are those of the compiler besides the target's. With `captures`, weights are constants
    in the executable instead of arguments. `narrow` limits it to executables with 16-bit weights.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    captures: bool = False
    narrow: bool = False


class Backend(Protocol):
    """Compiles modules for targets of one platform. Called from several threads at once."""

    @property
    def platform(self) -> str:
        """The platform of the targets it compiles for, e.g. "cpu"."""

    def toolchain(self) -> BuiltWith:
        """Return versions of everything that decides on the bytes of an executable.

        Raises CompileError (AOTC-E907) if something is missing.
        """

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module for one target, always to the same bytes. Raises CompileError."""

    def stop(self) -> None:
        """Stop running compilations; called from another thread.

        Running and later calls of `compile` raise `aotc.base.child_processes.StoppedError`.
        """


RANGES = "ranges of sizes"
"""Kernels of engines whose executables can serve every size of a dimension."""


class TargetKind[Model: TargetModel](ABC):
    """The targets of one platform.

    `model` is that of their files, its `platform` the name. `lowered_for` is the platform for which
    jax lowers the modules. `checked` describes how far programs were tested there, as
    `aotc targets list` shows. With `packs_weights`, a load copies the weights for each executable.
    `kernels` are those for numbers of fewer bits, and RANGES.
    """

    model: type[Model]
    lowered_for: ClassVar[str] = "cpu"
    checked: ClassVar[str] = "not checked"
    packs_weights: ClassVar[bool] = False
    kernels: ClassVar[Collection[str]] = (
        *("int4 weights", "int8 weights", "8-bit activations", "bfloat16 products"),
    )

    @abstractmethod
    def target(self, model: Model) -> Target:
        """Return the schema value of a target file."""

    @abstractmethod
    def keys(self, target: Target) -> Mapping[str, object]:
        """Return a target file's keys besides those of `TargetModel`.

        Values are texts, numbers, lists of texts, and tables of texts.
        """

    @abstractmethod
    def backend(self) -> Backend:
        """Return the compiler. Raises CompileError (AOTC-E909) for a kind that has none here."""

    def check(self, document: Document, model: Model) -> Iterator[Finding]:
        """Yield what is wrong with a target file beyond its keys and their types (AOTC-E812)."""
        if model.triple not in TRIPLES:
            yield unknown_name(document, ("triple",), "one of", TRIPLES, model.triple)

    def requirements(
        self, target: Target, built_with: BuiltWith, memory_bytes: int
    ) -> DeviceRequirements | UnsetType:
        """Return requirements on the host's devices, with `memory_bytes` on each.

        All kinds need them but that of processors, which `Requirements` describe.
        """
        return UNSET

    def fixed_devices(self, target: Target) -> str:
        """Return what fixes the number of devices, such as "v5e:2x4"; "" if nothing does.

        A build manifest cannot state another number then.
        """
        return ""

    def self_contained(self, target: Target) -> Target:
        """Return the target with what it refers to by name written out. Raises CompileError."""
        return target

    def candidates(self) -> tuple[Candidate, ...]:
        """Return what `aotc build --tune` measures, in order of preference, the default first."""
        return (Candidate(DEFAULT),)

    def notes(self, target: Target, jaxlib: str) -> tuple[str, ...]:
        """Return sentences on what else to know about a target with this jaxlib."""
        return ()


def unknown_name(
    document: Document, path: KeyPath, what: str, known: Sequence[str], found: str
) -> Finding:
    """Return a finding (AOTC-E812); `what` is the expected thing, `known` the valid names."""
    hint = did_you_mean(found.lstrip("+-"), known, "correct the name")
    cause = "" if path[0] == "cpu" else "unknown-target-option"
    expected, found = f"{what}: {', '.join(known)}", spell(found)
    problem = Problem("AOTC-E812", path, hint, expected=expected, found=found, cause=cause)
    return document.finding(problem)


def device_target(model: TargetModel, device: TargetDevice | UnsetType = UNSET) -> Target:
    """Return a target that is no CPU, with an accelerator that bundle manifests can describe."""
    return Target(
        name=model.name,
        platform=model.platform,
        triple=model.triple,
        cpu="",
        features=(),
        tuning=(),
        threads=1,
        options=dict(sorted(model.options.items())),
        device=device,
        devices=model.devices,
    )


def plugin_requirements(
    kinds: tuple[str, ...],
    plugin: str,
    built_with: BuiltWith,
    memory_bytes: int,
    compute_capability: str | None = None,
    driver: str | None = None,
) -> DeviceRequirements:
    """Require devices of these kinds, and the plugin version that compiled for them.

    `memory_bytes` is needed on each device.
    """
    version = built_with.tools.get(plugin)
    return DeviceRequirements(
        kinds=kinds,
        memory_bytes=memory_bytes,
        plugin=plugin,
        accepts_plugin=(version,) if version else (),
        compute_capability=compute_capability,
        driver=driver,
    )
