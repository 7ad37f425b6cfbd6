"""Facts that bundles state, numbers of their executables among them, and where two bundles differ.

What belongs to the program is the same for every target of a bundle. A target has executables,
options and requirements of its own, and what was measured on it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.base.evidence import XLA, ExecutableEvidence
from aotc.bundle.read.bundle_review import ReviewedExecutable, ReviewedTarget
from aotc.bundle.read.call_memory import call_bytes
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import BundleManifest, EntryPoint, ParityRan
from aotc_runtime.schema.fallback_policies import without_compiling
from aotc_runtime.schema.manifest_labels import label, sizes_text

SHOWN_MAX = 72
"""Longer facts are shown by their digest."""

_PROGRAM = ("format_version", "name", "version")
_TARGET = (
    *("target", "requires", "mesh", "built_with", "accepts_jaxlib", "compilation", "evidence"),
)  # fmt: skip
_WEIGHTS = ("blobs", "tensors", "origin")
_ENTRY_POINT = (
    *("function", "parameters", "inputs", "result", "outputs", "dimensions", "relations"),
    *("bound", "static", "tolerance", "numerics", "lifted", "specialized", "evaluations"),
)
_MODULE = ("module", "input_shapes", "output_shapes", "precision")
_EXECUTABLE = ("platform", "fixture", "tuned", "executable", "parity")
"""Fields that are compared as they stand in a manifest."""

_MEASURED = ("recorded results", "coverage", "operations", "placement", "numbers")

_OF_TARGET = frozenset(
    (*_TARGET, *_EXECUTABLE, *_MEASURED, "specialized", "proofs", "profiles", "evaluations")
)
"""What a target has of its own."""

_PROVEN_PER_TARGET = "proof"
"""The part of a policy that was measured with the executables of one target."""


class Part(IntEnum):
    """The subject of a fact."""

    MANIFEST = 0
    DIMENSION = 1
    WEIGHTS = 2
    ASSET = 3
    ENTRY_POINT = 4
    EXECUTABLE = 5


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement about a part of a bundle.

    `owner` is the dimension, weights set, asset, entry point or label of an executable; empty for
    the manifest itself. `field` is its name in the manifest or the evidence.
    """

    part: Part
    owner: str
    field: str

    @property
    def of_program(self) -> bool:
        """Return whether it is the same for all targets."""
        return self.field not in _OF_TARGET

    def name(self, platform: str) -> str:
        """Return the fact's name in messages, such as "module predict[batch=8]".

        `platform` is the target's. jax lowers some operations to other calls on other platforms, so
        that their modules are not the same fact.
        """
        match self.part:
            case Part.MANIFEST:
                return self.field
            case Part.DIMENSION:
                return f"dimensions {self.owner}"
            case Part.WEIGHTS:
                what = "" if self.field == "blobs" else f" {self.field}"
                return f"weights {self.owner}{what}"
            case Part.ASSET:
                return f"asset {self.owner}"
            case Part.EXECUTABLE if self.field == "module":
                on = "" if platform == "cpu" else f" on {platform}"
                return f"module{on} {self.owner}"
        return f"{self.owner} {self.field}"

    def text(self, value: Any) -> str:
        """Return the value of a fact of a program as text, or its digest."""
        match self.field:
            case "format_version" | "name" | "version" | "origin":
                return str(value)
            case "blobs":
                return ", ".join(ref.digest for ref in value)
            case "module":
                return str(value.digest)
            case "symbolic" | "numerics":
                return "none" if value is UNSET else str(value)
            case "precision":
                return "none" if value is UNSET else f"{value.name} ({value.weights})"
        data = canonical_json.encode(value)
        return data.decode() if len(data) <= SHOWN_MAX else sha256(data)


type Facts = Iterator[tuple[Fact, Any]]
"""Facts with their values: as they stand in the manifest or the evidence, or made of that."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A fact that differs between two bundles; None where a bundle lacks its owner."""

    target: str
    fact: Fact
    before: Any
    after: Any

    @property
    def in_both(self) -> bool:
        """Return whether both have what the fact is about."""
        return self.before is not None and self.after is not None


def compare(
    before: Mapping[str, ReviewedTarget], after: Mapping[str, ReviewedTarget]
) -> Iterator[Changed]:
    """Yield the differences between the targets that both bundles have, without blobs' bytes."""
    for target in sorted(before.keys() & after.keys()):
        one, two = (
            dict(chain(_facts(side[target].manifest), _measured_facts(side[target])))
            for side in (before, after)
        )
        for fact in one | two:
            values = one.get(fact), two.get(fact)
            if values[0] != values[1]:
                yield Changed(target, fact, *values)


def program_texts(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    """Yield what a target says of its program, for people: the name and the text of each fact."""
    for fact, value in _facts(manifest):
        if fact.of_program:
            yield fact.name(manifest.target.platform), fact.text(value)


def _facts(manifest: BundleManifest) -> Facts:
    for field in (*_PROGRAM, *_TARGET):
        yield Fact(Part.MANIFEST, "", field), getattr(manifest, field)
    yield Fact(Part.MANIFEST, "", "dimensions"), sorted(manifest.dimensions)
    for name, dimension in sorted(manifest.dimensions.items()):
        yield Fact(Part.DIMENSION, name, "range"), dimension
    yield Fact(Part.MANIFEST, "", "weights"), sorted(manifest.weights)
    for name, weights in sorted(manifest.weights.items()):
        for field in _WEIGHTS:
            yield Fact(Part.WEIGHTS, name, field), getattr(weights, field)
    assets = manifest.assets or {}
    yield Fact(Part.MANIFEST, "", "assets"), sorted(assets)
    for name, asset in sorted(assets.items()):
        yield Fact(Part.ASSET, name, "files"), asset
    yield Fact(Part.MANIFEST, "", "entry_points"), sorted(manifest.entry_points)
    for name, entry_point in sorted(manifest.entry_points.items()):
        for field, value in _entry_point(entry_point):
            yield Fact(Part.ENTRY_POINT, name, field), value
        for profile in entry_point.profiles:
            for field in (*_MODULE, *_EXECUTABLE):
                owner = label(name, profile.sizes)
                yield Fact(Part.EXECUTABLE, owner, field), getattr(profile, field)


def _entry_point(entry_point: EntryPoint) -> Iterator[tuple[str, Any]]:
    for field in _ENTRY_POINT:
        yield field, getattr(entry_point, field)
    yield "out_of_profile", _without_proofs(msgspec.to_builtins(entry_point.out_of_profile))
    policies = without_compiling(entry_point)
    yield "proofs", {dimension: policy.proof for dimension, policy in policies.items()}
    symbolic = entry_point.symbolic
    yield "symbolic", UNSET if symbolic is UNSET else symbolic.module.digest
    yield "profiles", [sizes_text(profile.sizes) for profile in entry_point.profiles]


def _measured_facts(target: ReviewedTarget) -> Facts:
    """Return measured numbers, and the build's notes for reviewers if it left any."""
    for name in target.manifest.entry_points:
        known = target.entry_points.get(name)
        yield Fact(Part.ENTRY_POINT, name, "recorded results"), bool(known and known.reference)
        if known is not None:
            lines = {
                f"{file} {function.name}": f"{function.traced} of {function.lines} lines"
                for file, functions in known.coverage.files.items()
                for function in functions
            }
            yield Fact(Part.ENTRY_POINT, name, "coverage"), lines
    for executable in target.executables():
        yield Fact(Part.EXECUTABLE, executable.label, "numbers"), numbers_of(executable)
        if executable.evidence is not None and executable.evidence.compiled is not UNSET:
            compiled = executable.evidence.compiled
            for field, value in (
                ("operations", compiled.operations),
                ("compilation", compiled.compilation.options),
                ("placement", _library_steps(compiled)),
            ):
                yield Fact(Part.EXECUTABLE, executable.label, field), value


def _library_steps(compiled: ExecutableEvidence) -> dict[str, int]:
    """Return steps that XLA did not generate, by who does them."""
    return {
        f"{place.name} {step}": number
        for place in compiled.placement
        if place.name != XLA
        for step, number in place.steps.items()
    }


def _without_proofs(value: Any) -> Any:
    """Return policies without what each target proved of them."""
    if isinstance(value, dict):
        return {k: _without_proofs(v) for k, v in value.items() if k != _PROVEN_PER_TARGET}
    return value


NUMBERS = {
    "artifact_size": ("bytes", "the blobs of a bundle together"),
    "executable_size": ("bytes", "an executable"),
    "module_size": ("bytes", "a module"),
    "code": ("bytes", "object files of an executable"),
    "temp_memory": ("bytes", "temporaries of a call"),
    "call_memory": ("bytes", "what a call allocates, on each device: inputs, outputs, temporaries"),
    "flops": ("", "floating-point operations, by XLA's cost analysis"),
    "transcendentals": ("", "exponentials, sines and the like, by XLA's cost analysis"),
    "bytes_accessed": ("bytes", "bytes read and written, by XLA's cost analysis"),
    "kernels": ("", "generated kernels"),
    "library_steps": ("", "all other steps"),
    "custom_calls": ("", "custom calls"),
    "fusions": ("", "fused kernels"),
    "ulp": ("", "largest error against plain JAX, in units in the last place"),
}
"""Numbers that `aotc diff` compares, by the names that `--fail-on` takes: the unit, empty for a
count, and the meaning.
"""


def numbers_of(executable: ReviewedExecutable) -> dict[str, int]:
    """Return the known ones of `NUMBERS` of an executable."""
    record, evidence = executable.record, executable.evidence
    generated = record.thunks.get("kernel", 0)
    found = {
        "executable_size": record.executable.size,
        "module_size": record.module.size,
        "code": record.memory.code_bytes,
        "temp_memory": record.memory.temp_bytes,
        "call_memory": call_bytes(record, executable.description.inputs, executable.mesh),
        "flops": record.cost.flops,
        "transcendentals": record.cost.transcendentals,
        "bytes_accessed": record.cost.bytes_accessed,
        "kernels": generated,
        "library_steps": sum(record.thunks.values()) - generated,
    }
    if isinstance(record.parity, ParityRan):
        found["ulp"] = record.parity.ulp_max
    if evidence is not None and evidence.compiled is not UNSET:
        optimized = evidence.compiled.optimized
        found["custom_calls"] = sum(optimized.custom_calls.values())
        found["fusions"] = sum(optimized.fusions.values())
    return found
