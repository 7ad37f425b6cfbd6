"""An entry point in each of its representations: StableHLO as it was traced, HLO as XLA optimized
it, and the instructions of the kernels. All is read from the bundle's bytes; nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aotc.base.errors import refusal
from aotc.bundle.read.bundle_review import Review, ReviewedExecutable
from aotc.compile.compiler_registry import kind_of
from aotc.compile.mlir.module_texts import Form, texts
from aotc.compile.xla import xla_objects
from aotc_runtime.schema.bundle_manifest import BlobRef
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.manifest_labels import label, sizes_text
from aotc_runtime.verification.host_compatibility import CHECKS


class Stage(StrEnum):
    """A representation of an entry point."""

    STABLEHLO = "stablehlo"
    HLO = "hlo"
    ASM = "asm"


@dataclass(frozen=True, slots=True)
class Representation:
    """Text of one stage. digest: of the blob that it was read from, a module or an executable,
    which serves these targets.  note: why there is no text.
    """

    stage: Stage
    entry_point: str
    sizes: Mapping[str, int]
    targets: tuple[str, ...]
    digest: str
    text: str
    note: str = ""

    def title(self) -> str:
        """predict[batch=8] for cpu-x86-64-v3, stablehlo, sha256:0123456789ab."""
        place = label(self.entry_point, self.sizes)
        return f"{place} for {', '.join(self.targets)}, {self.stage}, {self.digest[:19]}"


@dataclass(frozen=True, slots=True)
class Explained:
    """notes: what to know of the targets that are shown, such as that this host cannot run them."""

    representations: tuple[Representation, ...]
    notes: tuple[str, ...]


def explain(
    review: Review,
    entry_point: str,
    stage: Stage,
    sizes: Mapping[str, int] | None,
    target: str | None,
    host: HostFacts,
) -> Explained:
    """One stage of an entry point. sizes: only profiles with these; target: only this one.

    Raises UsageError: AOTC-E055 what is asked for is not there, E057 it cannot be shown.
    """
    chosen = _chosen(review, entry_point, sizes, target)
    grouped: dict[str, list[ReviewedExecutable]] = {}
    for executable in chosen:
        grouped.setdefault(_ref(executable, stage).digest, []).append(executable)
    data = {digest: bytes(review.contents.blobs[digest]) for digest in grouped}
    place = f"{entry_point} of {review.bundle}"
    if stage is Stage.ASM:
        made = {}
        for digest, (first, *_) in grouped.items():
            platform = review.targets[first.target].manifest.platform_of(first.record)
            made[digest] = kind_of(platform).assembly(data[digest], place)
    else:
        made = _texts(data, stage, place)
    return Explained(
        representations=tuple(
            Representation(
                stage=stage,
                entry_point=entry_point,
                sizes=executables[0].record.sizes,
                targets=tuple(executable.target for executable in executables),
                digest=digest,
                text=made[digest],
                note="" if made[digest] else _NOTHING[stage],
            )
            for digest, executables in grouped.items()
        ),
        notes=tuple(_foreign(review, {executable.target for executable in chosen}, host)),
    )


_NOTHING = {
    Stage.STABLEHLO: "an empty module",
    Stage.HLO: "the executable holds no optimized HLO in a layout that is known",
    Stage.ASM: "the executable holds no ELF objects in a layout that is known; for TPUs none does",
}


def _ref(executable: ReviewedExecutable, stage: Stage) -> BlobRef:
    record = executable.record
    return record.module if stage is Stage.STABLEHLO else record.executable


def _texts(data: Mapping[str, bytes], stage: Stage, where: str) -> dict[str, str]:
    """Texts by digest; empty for an executable of unknown layout."""
    if stage is Stage.STABLEHLO:
        forms = [(Form.STABLEHLO, module) for module in data.values()]
        return dict(zip(data, texts(forms, where), strict=True))
    modules = {
        digest: module
        for digest, executable in data.items()
        if (module := xla_objects.optimized_module(executable)) is not None
    }
    forms = [(Form.HLO, module) for module in modules.values()]
    return dict.fromkeys(data, "") | dict(zip(modules, texts(forms, where), strict=True))


def _chosen(
    review: Review, entry_point: str, sizes: Mapping[str, int] | None, target: str | None
) -> list[ReviewedExecutable]:
    names = sorted({executable.entry_point for executable in review.executables()})
    if entry_point not in names:
        expected = f"one of: {', '.join(names)}"
        raise refusal("AOTC-E055", review.bundle, entry_point, expected=expected)
    if target is not None and target not in review.targets:
        cause, expected = "target-not-found-in-the-bundle", f"one of: {', '.join(review.targets)}"
        raise refusal("AOTC-E055", "--target", target, cause=cause, expected=expected)
    every = [e for e in review.executables() if e.entry_point == entry_point]
    found = [
        executable
        for executable in every
        if target in (None, executable.target)
        and (sizes or {}).items() <= executable.record.sizes.items()
    ]
    if not found:
        profiles = dict.fromkeys(sizes_text(e.record.sizes) for e in every)
        if "" in profiles:
            raise refusal("AOTC-E055", "--profile", "", cause="entry-point-has-no-sizes")
        cause, expected = "profile-not-found", f"one of: {', '.join(profiles)}"
        wanted = sizes_text(sizes or {})
        raise refusal("AOTC-E055", "--profile", wanted, cause=cause, expected=expected)
    return found


def _foreign(review: Review, names: set[str], host: HostFacts) -> Iterator[str]:
    for name in sorted(names):
        manifest = review.targets[name].manifest
        reasons = [finding for check in CHECKS for finding in check(manifest, host)]
        if reasons:
            first = f"{reasons[0].found}, not {reasons[0].expected}"
            yield f"this host does not run {name} ({first}); it is shown from its bytes"


def explain_report(review: Review, explained: Explained) -> dict[str, Any]:
    """The document of `aotc explain --json`."""
    return {
        "bundle": review.bundle,
        "root_digest": review.root_digest,
        "signatures_verified": review.verified,
        "signers": list(review.signers),
        "representations": [
            {
                "stage": found.stage,
                "entry_point": found.entry_point,
                "sizes": dict(found.sizes),
                "targets": list(found.targets),
                "digest": found.digest,
                "text": found.text or None,
                "note": found.note or None,
            }
            for found in explained.representations
        ],
        "notes": list(explained.notes),
    }


def explain_lines(explained: Explained) -> Sequence[str]:
    """Each representation below its title; `//` begins a comment in all of them but assembly."""
    lines: list[str] = []
    for found in explained.representations:
        lines += [f"// {found.title()}", found.text.rstrip() or f"// {found.note}", ""]
    return lines[:-1]
