"""Finds differences of two bundles in the order of build stages; the first may cause the others."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aotc.base.errors import UsageError
from aotc.base.evidence import Evidence
from aotc.bundle.read.bundle_facts import Changed, Part, compare
from aotc.bundle.read.bundle_review import ReviewedTarget
from aotc.bundle.read.differences import compared, differing
from aotc.compile.mlir.module_texts import Form, texts
from aotc_runtime.base import canonical_json
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.schema.bundle_manifest import BlobRef
from aotc_runtime.verification.bundle_contents import Contents

LINES_SHOWN = 24

VALUE_SHOWN = 80

ABSENT = "none"


class Stage(StrEnum):
    """The makers of the parts of a bundle, in order."""

    TARGET = "target"
    TOOLCHAIN = "toolchain"
    CAPTURE = "capture"
    MODULE = "module"
    WEIGHTS = "weights"
    FIXTURE = "fixture"
    EXECUTABLE = "executable"
    PARITY = "parity"
    EVIDENCE = "evidence"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference.

    `target` is "" for all; `what` describes it ("module predict[batch=8]"); `first` and `second`
    are values or digests; `lines` has details, such as the difference of two texts.
    """

    stage: Stage
    target: str
    what: str
    first: str
    second: str
    lines: tuple[str, ...] = ()


def module_text(artifact: bytes) -> str:
    """Return the text of a StableHLO artifact, read in another process: it may be anybody's."""
    try:
        (text,) = texts([(Form.STABLEHLO, artifact)], "a module")
    except UsageError as error:
        return f"jaxlib cannot read it: {error.findings[0].found}"
    return text


_LEAVES = {
    (Part.MANIFEST, "target"): (Stage.TARGET, ""),
    (Part.MANIFEST, "built_with"): (Stage.TOOLCHAIN, "built_with"),
    (Part.MANIFEST, "compilation"): (Stage.TOOLCHAIN, "compilation"),
    (Part.EXECUTABLE, "platform"): (Stage.EXECUTABLE, "platform"),
    (Part.EXECUTABLE, "tuned"): (Stage.EXECUTABLE, "tuned"),
    (Part.EXECUTABLE, "parity"): (Stage.PARITY, "parity"),
}
"""Facts of a target that are told field by field: their stages and names."""

_BLOBS = {"fixture": Stage.FIXTURE, "executable": Stage.EXECUTABLE}


def differences(
    first: Contents, second: Contents, text_of: Callable[[bytes], str] = module_text
) -> tuple[Difference, ...]:
    """Return all of them by stage, targets in order; none for the same bundles."""
    found: list[Difference] = []
    names = (sorted(first.manifests), sorted(second.manifests))
    if names[0] != names[1]:
        texts = [", ".join(each) or ABSENT for each in names]
        found.append(Difference(Stage.TARGET, "", "targets", texts[0], texts[1]))
    sides = [{n: ReviewedTarget(m, None) for n, m in s.manifests.items()} for s in (first, second)]
    changed = list(compare(sides[0], sides[1]))
    for name in names[0]:
        if name in second.manifests:
            comparison = _Comparison(name, first, second, text_of)
            told = [d for each in changed if each.target == name for d in comparison.told(each)]
            one, two = first.manifests[name], second.manifests[name]
            # Anything that no stage looks at.
            found += told or comparison.values(Stage.MANIFEST, "", one, two)
    order = list(Stage)
    return tuple(sorted(found, key=lambda each: order.index(each.stage)))


@dataclass(frozen=True, slots=True)
class _Comparison:
    target: str
    first: Contents
    second: Contents
    text_of: Callable[[bytes], str]

    def told(self, changed: Changed) -> Iterator[Difference]:
        fact, before, after = changed.fact, changed.before, changed.after
        if (fact.part, fact.field) == (Part.MANIFEST, "evidence"):
            yield from self._evidence(before, after)
        elif fact.of_program:
            yield from self._of_program(changed)
        elif changed.in_both and (fact.part, fact.field) in _LEAVES:
            stage, name = _LEAVES[fact.part, fact.field]
            yield from self.values(stage, f"{fact.owner} {name}".strip(), before, after)
        elif changed.in_both and fact.field in _BLOBS:
            what = f"{fact.field} {fact.owner}"
            yield self._blobs(_BLOBS[fact.field], what, before, after)

    def _of_program(self, changed: Changed) -> Iterator[Difference]:
        fact = changed.fact
        what = fact.name(self.first.manifests[self.target].target.platform)
        values = changed.before, changed.after
        one, two = (ABSENT if value is None else fact.text(value) for value in values)
        if fact.field == "module" and changed.in_both:
            yield self._said(Stage.MODULE, what, one, two, lines=self._module_lines(one, two))
        elif one != two:
            is_weights = fact.part is Part.WEIGHTS or fact.field == "weights"
            yield self._said(Stage.WEIGHTS if is_weights else Stage.CAPTURE, what, one, two)

    def _evidence(self, one: BlobRef | UnsetType, two: BlobRef | UnsetType) -> Iterator[Difference]:
        if one is UNSET or two is UNSET:
            yield from self.values(Stage.EVIDENCE, "evidence", one, two)
            return
        data = self.first.blobs[one.digest], self.second.blobs[two.digest]
        try:
            documents = [canonical_json.decode(each, Evidence, where="evidence") for each in data]
        except BundleFormatError:  # that of a bundle which nobody has vouched for, or a newer one
            yield self._blobs(Stage.EVIDENCE, "evidence", one, two)
            return
        yield from self.values(Stage.EVIDENCE, "evidence", *documents)

    def values(self, stage: Stage, what: str, one: Any, two: Any) -> Iterator[Difference]:
        """Yield the differences of two values, field by field."""
        first, second = (
            None if value is UNSET else msgspec.to_builtins(value) for value in (one, two)
        )
        for path, a, b in differing(first, second, what):
            yield self._said(stage, path, _shown(a), _shown(b))

    def _blobs(self, stage: Stage, what: str, one: BlobRef, two: BlobRef) -> Difference:
        data = self.first.blobs[one.digest], self.second.blobs[two.digest]
        differing_at = (n for n, (a, b) in enumerate(zip(*data, strict=False)) if a != b)
        same = next(differing_at, min(map(len, data)))
        line = f"{one.size} and {two.size} bytes, the same up to byte {same}"
        return self._said(stage, what, one.digest, two.digest, lines=(line,))

    def _module_lines(self, one: str, two: str) -> tuple[str, ...]:
        blobs = self.first.blobs[one], self.second.blobs[two]
        old, new = (self.text_of(bytes(blob)) for blob in blobs)
        lines, note = compared(old, new)
        more = len(lines) - LINES_SHOWN
        rest = [f"… {more} more lines"] if more > 0 else []
        return (note,) if note else (*lines[:LINES_SHOWN], *rest)

    def _said(
        self, stage: Stage, what: str, first: str, second: str, *, lines: tuple[str, ...] = ()
    ) -> Difference:
        return Difference(stage, self.target, what, first, second, lines)


def _shown(value: Any) -> str:
    text = ABSENT if value is None or value is UNSET else str(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 1]}…"
