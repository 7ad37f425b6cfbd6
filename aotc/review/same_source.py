"""Whether targets of several bundles were made from one program: what may differ between targets of
one bundle, and nothing else.

A target has executables, options and requirements of its own, and what was measured on it. Names,
weights, entry points, modules and what fixtures expect belong to the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.errors import finding
from aotc.packing.parts import TargetPart
from aotc_runtime import canonical
from aotc_runtime.digest import sha256
from aotc_runtime.errors import Finding
from aotc_runtime.schema.labels import label
from aotc_runtime.schema.manifest import BundleManifest, EntryPoint

SHOWN_MAX = 72
"""Longer values are told by their digest."""

PROVEN_PER_TARGET = "proof"
"""The part of a policy that was measured with the executables of one target."""

_OF_PROGRAM = (
    "function",
    "parameters",
    "inputs",
    "result",
    "outputs",
    "dimensions",
    "relations",
    "bound",
    "static",
    "tolerance",
    "lifted",
)
"""Fields of an entry point that are the same for every target."""


def check_same_source(parts: Sequence[TargetPart]) -> Iterator[Finding]:
    """AOTC-E050 for everything in which a bundle differs from those before it.

    Fixtures are compared apart (`fixtures_match`): what plain JAX computed differs in the last bits
    between machines.
    """
    first: dict[str, tuple[str, str]] = {}
    told: set[tuple[str, str]] = set()
    for part in parts:
        for what, value in program_facts(part.manifest):
            expected, bundle = first.setdefault(what, (value, part.bundle))
            if value != expected and (part.bundle, what) not in told:
                told.add((part.bundle, what))
                yield finding(
                    "AOTC-E050",
                    f"{part.bundle} {what}",
                    value,
                    expected=f"{expected}, as in {bundle}",
                    hint="merge bundles that were built from the same manifest, sources and "
                    "weights, with the same versions of aotc and jax",
                )


def program_facts(manifest: BundleManifest) -> Iterator[tuple[str, str]]:
    """What a target says of its program: name and value of each fact, as text or digest.

    Facts of profiles are named by the profile, which targets need not have in common.
    """
    yield "format_version", manifest.format_version
    yield "name", manifest.name
    yield "version", manifest.version
    for name, dimension in _listed("dimensions", manifest.dimensions):
        yield name, dimension
    yield "weights", _text(sorted(manifest.weights))
    for name, weights in sorted(manifest.weights.items()):
        yield f"weights {name}", ", ".join(ref.digest for ref in weights.blobs)
        yield f"weights {name} tensors", _text(weights.tensors)
        yield f"weights {name} origin", weights.origin
    yield "entry_points", _text(sorted(manifest.entry_points))
    for name, entry_point in sorted(manifest.entry_points.items()):
        yield from _of_entry_point(name, entry_point, manifest.target.platform)


def _of_entry_point(name: str, entry_point: EntryPoint, platform: str) -> Iterator[tuple[str, str]]:
    for field in _OF_PROGRAM:
        yield f"{name} {field}", _text(getattr(entry_point, field))
    policies = msgspec.to_builtins(entry_point.out_of_profile)
    yield f"{name} out_of_profile", _text(without_proofs(policies))
    symbolic = entry_point.symbolic
    yield f"{name} symbolic", "none" if symbolic is UNSET else symbolic.module.digest
    for profile in entry_point.profiles:
        place = label(name, profile.sizes)
        # jax lowers some operations to other calls on other platforms, so that modules may differ.
        what = "module" if platform == "cpu" else f"module on {platform}"
        yield f"{what} {place}", profile.module.digest
        yield f"{place} input_shapes", _text(profile.input_shapes)
        yield f"{place} output_shapes", _text(profile.output_shapes)


def _listed(what: str, items: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield what, _text(sorted(items))
    for name, value in sorted(items.items()):
        yield f"{what} {name}", _text(value)


def without_proofs(value: Any) -> Any:
    """Policies without what each target proved of them."""
    if isinstance(value, dict):
        return {k: without_proofs(v) for k, v in value.items() if k != PROVEN_PER_TARGET}
    return value


def _text(value: Any) -> str:
    data = canonical.encode(value)
    return data.decode() if len(data) <= SHOWN_MAX else sha256(data)
