"""Where two bundles differ, in the order of the stages of a build: the first difference is the
likely cause of the later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.evidence import Evidence
from aotc.packing.bundle import Data, TargetParts
from aotc.review.documents import differing
from aotc.review.modules import text_diff
from aotc.review.same_source import program_facts
from aotc_runtime import canonical
from aotc_runtime.errors import BundleFormatError
from aotc_runtime.schema.labels import label
from aotc_runtime.schema.manifest import BlobRef, BundleManifest, ProfileRecord
from aotc_runtime.verification.contents import Contents

LINES_SHOWN = 24

LINES_COMPARED = 20_000
"""Lines of texts of which the difference is computed; it takes seconds beyond."""

VALUE_SHOWN = 80

ABSENT = "none"


class Stage(StrEnum):
    """What made a part of a bundle, in order."""

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
class Side:
    """A bundle, packed or not. blobs: by digest."""

    manifests: Mapping[str, BundleManifest]
    blobs: Mapping[str, Data]


@dataclass(frozen=True, slots=True)
class Difference:
    """target: "" for what is of all.  what: "module predict[batch=8]", for people.  first, second:
    values or digests.  lines: more of it, such as the difference of two texts.
    """

    stage: Stage
    target: str
    what: str
    first: str
    second: str
    lines: tuple[str, ...] = ()


type ModuleText = Callable[[bytes], str]
"""The text of a StableHLO artifact."""


def side_of(contents: Contents) -> Side:
    """A side of the comparison, made of a bundle that was read."""
    return Side(contents.manifests, contents.blobs)


def side_of_parts(parts: Sequence[TargetParts]) -> Side:
    """A side of the comparison, made of a bundle that was not written."""
    blobs = {blob.digest: blob.data for part in parts for blob in part.blobs}
    return Side({part.manifest.target.name: part.manifest for part in parts}, blobs)


def differences(first: Side, second: Side, module_text: ModuleText) -> tuple[Difference, ...]:
    """All of them by stage, targets in order; empty for the same bundles."""
    found: list[Difference] = []
    names = (sorted(first.manifests), sorted(second.manifests))
    if names[0] != names[1]:
        texts = [", ".join(each) or ABSENT for each in names]
        found.append(Difference(Stage.TARGET, "", "targets", texts[0], texts[1]))
    for name in names[0]:
        if name in second.manifests:
            comparison = _Comparison(name, first, second, module_text)
            found += comparison.all()
    order = list(Stage)
    return tuple(sorted(found, key=lambda each: order.index(each.stage)))


@dataclass(frozen=True, slots=True)
class _Comparison:
    target: str
    first: Side
    second: Side
    module_text: ModuleText

    def all(self) -> list[Difference]:
        one, two = self.first.manifests[self.target], self.second.manifests[self.target]
        if one == two:
            return []
        found = [
            *self._values(Stage.TARGET, "", one.target, two.target),
            *self._values(Stage.TOOLCHAIN, "built_with", one.built_with, two.built_with),
            *self._values(Stage.TOOLCHAIN, "compilation", one.compilation, two.compilation),
            *self._facts(one, two),
            *self._profiles(one, two),
            *self._evidence(one, two),
        ]
        # Anything that the comparisons above do not cover.
        return found or list(self._values(Stage.MANIFEST, "", one, two))

    def _facts(self, one: BundleManifest, two: BundleManifest) -> Iterator[Difference]:
        facts, others = dict(program_facts(one)), dict(program_facts(two))
        for what in [*facts, *(name for name in others if name not in facts)]:
            pair = facts.get(what, ABSENT), others.get(what, ABSENT)
            if pair[0] == pair[1]:
                continue
            if what.startswith("module ") and ABSENT not in pair:
                yield self._said(Stage.MODULE, what, *pair, lines=self._module_lines(*pair))
            elif what.startswith("weights"):
                yield self._said(Stage.WEIGHTS, what, *pair)
            else:
                yield self._said(Stage.CAPTURE, what, *pair)

    def _profiles(self, one: BundleManifest, two: BundleManifest) -> Iterator[Difference]:
        profiles, others = _profiles(one), _profiles(two)
        for place in [name for name in profiles if name in others]:
            a, b = profiles[place], others[place]
            if a.fixture != b.fixture:
                yield self._blobs(Stage.FIXTURE, f"fixture {place}", a.fixture, b.fixture)
            yield from self._values(Stage.EXECUTABLE, f"{place} tuned", a.tuned, b.tuned)
            if a.executable != b.executable:
                what = f"executable {place}"
                yield self._blobs(Stage.EXECUTABLE, what, a.executable, b.executable)
            yield from self._values(Stage.PARITY, f"{place} parity", a.parity, b.parity)

    def _evidence(self, one: BundleManifest, two: BundleManifest) -> Iterator[Difference]:
        if one.evidence == two.evidence:
            return
        if one.evidence is UNSET or two.evidence is UNSET:
            yield from self._values(Stage.EVIDENCE, "evidence", one.evidence, two.evidence)
            return
        data = self.first.blobs[one.evidence.digest], self.second.blobs[two.evidence.digest]
        try:
            documents = [canonical.decode(each, Evidence, where="evidence") for each in data]
        except BundleFormatError:  # that of a bundle which nobody has vouched for, or a newer one
            yield self._blobs(Stage.EVIDENCE, "evidence", one.evidence, two.evidence)
            return
        yield from self._values(Stage.EVIDENCE, "evidence", *documents)

    def _values(self, stage: Stage, what: str, one: Any, two: Any) -> Iterator[Difference]:
        """Where two values differ, field by field."""
        for path, a, b in differing(_plain(one), _plain(two), what):
            yield self._said(stage, path, _shown(a), _shown(b))

    def _blobs(self, stage: Stage, what: str, one: BlobRef, two: BlobRef) -> Difference:
        data = memoryview(self.first.blobs[one.digest]), memoryview(self.second.blobs[two.digest])
        same = _same_bytes(bytes(data[0]), bytes(data[1]))
        line = f"{one.size} and {two.size} bytes, the same up to byte {same}"
        return self._said(stage, what, one.digest, two.digest, lines=(line,))

    def _module_lines(self, one: str, two: str) -> tuple[str, ...]:
        a = self.module_text(bytes(self.first.blobs[one])).splitlines()
        b = self.module_text(bytes(self.second.blobs[two])).splitlines()
        if max(len(a), len(b)) > LINES_COMPARED:
            return (f"modules of {len(a)} and {len(b)} lines are not compared line by line",)
        lines = list(text_diff(a, b))
        if not lines:
            return ("they differ in constants of many numbers, or in how they are encoded",)
        more = len(lines) - LINES_SHOWN
        return (*lines[:LINES_SHOWN], *([f"… {more} more lines"] if more > 0 else []))

    def _said(
        self, stage: Stage, what: str, first: str, second: str, *, lines: tuple[str, ...] = ()
    ) -> Difference:
        return Difference(stage, self.target, what, first, second, lines)


def _profiles(manifest: BundleManifest) -> dict[str, ProfileRecord]:
    return {
        label(name, profile.sizes): profile
        for name, entry_point in manifest.entry_points.items()
        for profile in entry_point.profiles
    }


def _plain(value: Any) -> Any:
    return None if value is UNSET else msgspec.to_builtins(value)


def _shown(value: Any) -> str:
    text = ABSENT if value is None or value is UNSET else str(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 1]}…"


def _same_bytes(one: bytes, two: bytes) -> int:
    """How many first bytes are the same; by halves, since executables are large."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == two[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
