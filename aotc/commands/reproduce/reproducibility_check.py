"""Differences between a build and another one of the same, in the order of build stages.

The first difference may cause the others. `aotc build --check-reproducible` builds a second time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.base.errors import UsageError, finding, quote, raise_if
from aotc.base.evidence import Evidence
from aotc.base.workers.forked_workers import renew
from aotc.bundle.read.bundle_facts import Changed, compare
from aotc.bundle.read.bundle_review import ReviewedTarget
from aotc.bundle.read.differences import compare_modules, differing
from aotc.bundle.write.bundle_writer import TargetParts, assemble
from aotc.compile.mlir.module_texts import texts
from aotc.config.tuning_file import Recorded
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import BundleFormatError, Finding
from aotc_runtime.schema.bundle_manifest import BlobRef
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_contents import Contents
from aotc_runtime.verification.bundle_examination import read_unverified

LINES_SHOWN = 24

VALUE_SHOWN = 80

ABSENT = "none"

STAGES = {
    "target": ("target",),
    "toolchain": ("built_with", "compilation"),
    "capture": (),
    "module": ("module",),
    "weights": ("blobs", "tensors", "origin", "weights"),
    "fixture": ("fixture",),
    "executable": ("executable", "platform", "tuned"),
    "parity": ("parity",),
    "evidence": ("evidence",),
    "manifest": (),
}
"""The makers of the parts of a bundle, in order, with the facts that they are told by. The capture
has what else is said of the program; the manifest has what no stage looks at.
"""

_STAGE_OF = {field: stage for stage, fields in STAGES.items() for field in fields}


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference.

    `target` is "" for all; `what` describes it ("module predict[batch=8]"); `first` and `second`
    are values or digests; `lines` has details, such as the difference of two texts.
    """

    stage: str
    target: str
    what: str
    first: str
    second: str
    lines: tuple[str, ...] = ()


def module_text(artifact: bytes) -> str:
    """Return the text of a StableHLO artifact, read in another process: it may be anybody's."""
    try:
        (text,) = texts([artifact], "a module")
    except UsageError as error:
        return f"jaxlib cannot read it: {error.findings[0].found}"
    return text


def differences(
    first: Contents, second: Contents, text_of: Callable[[bytes], str] = module_text
) -> tuple[Difference, ...]:
    """Return all of them by stage, targets in order; none for the same bundles."""
    found: list[Difference] = []
    names = (sorted(first.manifests), sorted(second.manifests))
    if names[0] != names[1]:
        one, two = (", ".join(each) or ABSENT for each in names)
        found.append(Difference("target", "", "targets", one, two))
    sides = [{n: ReviewedTarget(m, None) for n, m in s.manifests.items()} for s in (first, second)]
    for changed in compare(sides[0], sides[1]):
        found += _fact_differences(changed, first, second, text_of)
    for name in names[0]:
        if name in second.manifests and all(each.target != name for each in found):
            found += _values("manifest", name, "", first.manifests[name], second.manifests[name])
    order = list(STAGES)
    return tuple(sorted(found, key=lambda each: order.index(each.stage)))


def _fact_differences(
    changed: Changed, first: Contents, second: Contents, text_of: Callable[[bytes], str]
) -> Iterator[Difference]:
    """Yield the differences of a fact, unless it follows from others or only one side has it."""
    fact = changed.fact
    stage = _STAGE_OF.get(fact.field, "capture" if fact.of_program else "")
    if not stage or not (fact.of_program or changed.in_both):
        return
    what = fact.name(first.manifests[changed.target].target.platform)
    one, two = changed.before, changed.after
    if not isinstance(one, BlobRef) or not isinstance(two, BlobRef):
        yield from _values(stage, changed.target, what, one, two)
        return
    data = bytes(first.blobs[one.digest]), bytes(second.blobs[two.digest])
    if stage == "evidence":
        try:
            decoded = [canonical_json.decode(each, Evidence, where=stage) for each in data]
            yield from _values(stage, changed.target, what, *decoded)
            return
        except BundleFormatError:
            pass  # that of a bundle which nobody has vouched for, or a newer one
    if stage == "module":
        lines, note = compare_modules(*map(text_of, data))
        more = [f"… {len(lines) - LINES_SHOWN} more lines"] if len(lines) > LINES_SHOWN else []
        lines = [note] if note else [*lines[:LINES_SHOWN], *more]
    else:
        parted = (n for n, (a, b) in enumerate(zip(*data, strict=False)) if a != b)
        same = next(parted, min(map(len, data)))
        lines = [f"{one.size} and {two.size} bytes, the same up to byte {same}"]
    yield Difference(stage, changed.target, what, one.digest, two.digest, tuple(lines))


def _values(stage: str, target: str, what: str, one: Any, two: Any) -> Iterator[Difference]:
    """Yield the differences of two values, field by field."""
    before, after = (
        UNSET if each is None or each is UNSET else msgspec.to_builtins(each) for each in (one, two)
    )
    for path, a, b in differing(before, after, what):
        yield Difference(stage, target, path, _value_text(a), _value_text(b))


def _value_text(value: Any) -> str:
    text = ABSENT if value is None or value is UNSET else str(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 1]}…"


SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class BuildAgain:
    """A build to repeat without a cache, in other folders and processes, with other `jobs`."""

    manifest: Path
    targets: Sequence[str]
    jobs: int | None
    tuning: Recorded | None
    card: Path | None = None

    def check(self, parts: Sequence[TargetParts]) -> None:
        """Compare what is about to be packed with what a second build makes.

        Raises ReproducibilityError (AOTC-E940), and what a build raises.
        """
        from aotc.pipeline.build import build
        from aotc.pipeline.build_options import BuildOptions

        renew()
        options = BuildOptions(
            targets=self.targets,
            jobs=1 if self.jobs != 1 else 2,
            tuning=self.tuning,
            card=self.card,
        )
        with scratch_folder() as folder:
            second = build(self.manifest, folder / "again.aotb", options)
            first = assemble(parts)
            if second.bundle.root_digest == first.root.digest:
                return
            blobs = {digest: memoryview(blob.data) for digest, blob in first.blobs.items()}
            one = Contents(first.root.digest, first.manifests, blobs, {}, ())
            two, _ = read_unverified(open_streamed(second.bundle.path))
            found = differences(one, two)
        raise_if(findings(found, "the first build", "the second"))


def findings(found: Sequence[Difference], first: str, second: str) -> Iterator[Finding]:
    """Yield AOTC-E940 for each difference, in the order of the stages.

    `first` and `second` name the bundles in messages.
    """
    assert found, "root digests differ, so something does"
    for difference in found[:SHOWN_MAX]:
        target = f"{difference.target} " if difference.target else ""
        where = f"{difference.stage}: {target}{difference.what}"
        wanted = f"{difference.first}, as in {first}"
        shown = quote(f"{difference.second} in {second}", difference.lines)
        hint = "start with the earliest stage: later differences follow from it"
        yield finding("AOTC-E940", where, shown, expected=wanted, hint=hint)
    more = len(found) - SHOWN_MAX
    if more > 0:
        hint = "find the cause of the first differences"
        yield finding("AOTC-E940", "further differences", f"{more} more", hint=hint)
