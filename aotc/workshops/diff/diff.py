"""`aotc diff`: what changed between two bundles, as data: identity, sources, toolchain, and the
numbers of every executable. docs/commands.md lists the kinds of changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.evidence import XLA, Coverage, ExecutableEvidence
from aotc.review.documents import differing
from aotc.review.numbers import Number, numbers_of
from aotc.review.reading import Review, ReviewedExecutable, ReviewedTarget
from aotc.review.same_source import without_proofs
from aotc.workshops.diff.changes import KINDS, NONE, Change
from aotc.workshops.diff.module_diff import ModulePair, TextDiff, compare_texts
from aotc_runtime import canonical
from aotc_runtime.digest import sha256
from aotc_runtime.schema import shardings
from aotc_runtime.schema.labels import without_compiling
from aotc_runtime.schema.manifest import EntryPoint, Parity, ParityRan, WeightSet, WeightTensor

SHOWN_MAX = 60
"""Longer values are told by their digest."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two bundles. changes: in the order of `KINDS`, then numbers.  modules: the text of those that
    changed.
    """

    before: Review
    after: Review
    changes: tuple[Change, ...]
    modules: tuple[TextDiff, ...]

    @property
    def is_same(self) -> bool:
        """Whether both have the same root and the same targets of it: then they are the same, byte
        for byte.
        """
        roots = self.before.root_digest == self.after.root_digest
        return roots and self.before.targets.keys() == self.after.targets.keys()


def diff(before: Review, after: Review, *, lines_max: int) -> Diff:
    """Compare. lines_max: of a module's text diff.

    Raises UsageError (AOTC-E057) for a module that this jaxlib cannot read.
    """
    changes = [*_bundles(before, after)]
    if before.root_digest == after.root_digest:
        return Diff(before, after, tuple(changes), ())
    pairs: dict[tuple[str, str], list[str]] = {}
    for name in sorted(before.targets.keys() & after.targets.keys()):
        changes += _targets(name, before.targets[name], after.targets[name])
    matched = _matched(before, after)
    for one, two in matched:
        changes += _executables(one, two)
        digests = one.record.module.digest, two.record.module.digest
        if digests[0] != digests[1]:
            pairs.setdefault(digests, []).append(_place(two))
    modules = compare_texts(
        [
            ModulePair(
                tuple(places),
                *digests,
                bytes(before.contents.blobs[digests[0]]),
                bytes(after.contents.blobs[digests[1]]),
            )
            for digests, places in pairs.items()
        ],
        lines_max,
    )
    changes += _remaining(before, after, changes)
    order = {kind: index for index, kind in enumerate(KINDS)}
    # Stable: within a kind, changes stay in the order of targets, entry points and profiles.
    changes.sort(key=lambda change: (order.get(change.kind, len(order)), change.kind))
    return Diff(before, after, tuple(changes), tuple(modules))


def _bundles(before: Review, after: Review) -> Iterator[Change]:
    yield from _fields("identity", "", _identity(before), _identity(after))
    for name in sorted(before.targets.keys() ^ after.targets.keys()):
        yield Change("targets", name, "", _state_of(name, before), _state_of(name, after))
    one, two = sum(before.sizes.values()), sum(after.sizes.values())
    if one != two:
        yield _number("artifact_size", "bundle", one, two)


def _state_of(target: str, review: Review) -> str:
    if target in review.targets:
        return "there"
    return "absent from this copy" if target in review.absent else NONE


def _identity(review: Review) -> dict[str, Any]:
    first = next(iter(review.targets.values())).manifest
    return {"name": review.name, "version": review.version, "format": first.format_version}


def _targets(name: str, one: ReviewedTarget, two: ReviewedTarget) -> Iterator[Change]:
    before, after = one.manifest, two.manifest
    yield from _structs("targets", name, before.target, after.target)
    yield from _structs("targets", f"{name} requires", before.requires, after.requires)
    yield from _structs("toolchain", name, before.built_with, after.built_with)
    accepts = {"accepts_jaxlib": before.accepts_jaxlib}, {"accepts_jaxlib": after.accepts_jaxlib}
    yield from _fields("toolchain", name, *accepts)
    known = [{"dimensions": msgspec.to_builtins(m.dimensions)} for m in (before, after)]
    yield from _fields("interface", name, *known)
    for kind, field in (("targets", "mesh"), ("compilation", "compilation")):
        parts = [getattr(m, field) for m in (before, after)]
        stated = [{} if p is UNSET else {field: msgspec.to_builtins(p)} for p in parts]
        yield from _fields(kind, name, *stated)
    for set_name in sorted(before.weights.keys() | after.weights.keys()):
        sets = before.weights.get(set_name), after.weights.get(set_name)
        yield from _weights(f"{name} {set_name}", *sets)
    for entry in sorted(before.entry_points.keys() | after.entry_points.keys()):
        place = f"{entry} for {name}"
        first, second = before.entry_points.get(entry), after.entry_points.get(entry)
        if first is None or second is None:
            yield Change("interface", place, "", *_presence(first, second))
            continue
        yield from _fields("interface", place, *map(_interface, (first, second)))
        yield from _fields("parity", place, *map(_proofs, (first, second)))
        compared = [{"recorded results": t.is_recorded(entry)} for t in (one, two)]
        yield from _fields("parity", place, *compared)
        sizes = [{_sizes(p.sizes) for p in e.profiles} for e in (first, second)]
        for text in sorted(sizes[0] ^ sizes[1]):
            there = ("there", NONE) if text in sizes[0] else (NONE, "there")
            yield Change("profiles", place, text or "without sizes", *there)
        yield from _coverage(place, one.coverage(entry), two.coverage(entry))


def _interface(entry_point: Any) -> dict[str, Any]:
    """Everything that callers and the program decide on; not what was measured."""
    known: dict[str, Any] = msgspec.to_builtins(entry_point)
    known.pop("profiles")
    if "symbolic" in known:
        known["symbolic"] = known["symbolic"]["module"]["digest"]
    return {key: without_proofs(value) for key, value in known.items()}


def _proofs(entry_point: EntryPoint) -> dict[str, Any]:
    """What policies were proven by, by dimension."""
    return {
        f"{dimension} proof": policy.proof
        for dimension, policy in without_compiling(entry_point).items()
    }


def _weights(place: str, one: WeightSet | None, two: WeightSet | None) -> Iterator[Change]:
    if one is None or two is None:
        yield Change("weights", place, "", *_presence(one, two))
        return
    yield from _fields("weights", place, {"origin": one.origin}, {"origin": two.origin})
    tensors = [{t.name: _tensor(t) for t in set_.tensors} for set_ in (one, two)]
    yield from _fields("weights", place, *tensors)
    files = [[ref.digest for ref in set_.blobs] for set_ in (one, two)]
    if files[0] != files[1]:
        same = len(set(files[0]) & set(files[1]))
        first, second = (_shown(f) if len(f) > 1 else f[0][:19] for f in files)
        rest = f" (of {len(files[1])} files {same} are the same)" if same else ""
        yield Change("weights", place, f"values{rest}", first, second)


def _tensor(tensor: WeightTensor) -> str:
    data = f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"
    return f"{data} cut {shardings.text(tensor.sharding)}" if tensor.sharding else data


def _coverage(place: str, one: Coverage | None, two: Coverage | None) -> Iterator[Change]:
    if one is None or two is None:
        return
    tables = [
        {
            f"{file} {function.name}": f"{function.traced} of {function.lines} lines"
            for file, functions in coverage.files.items()
            for function in functions
        }
        for coverage in (one, two)
    ]
    yield from _fields("coverage", place, *tables)


def _matched(before: Review, after: Review) -> list[tuple[ReviewedExecutable, ReviewedExecutable]]:
    known = {(e.target, e.label): e for e in before.executables()}
    return [(known[key], e) for e in after.executables() if (key := (e.target, e.label)) in known]


def _executables(one: ReviewedExecutable, two: ReviewedExecutable) -> Iterator[Change]:
    place = _place(two)
    for kind in ("module", "executable", "fixture"):
        first, second = (getattr(e.record, kind).digest for e in (one, two))
        if first != second:
            yield Change(kind, place, "", first[:19], second[:19])
    yield from _fields("parity", place, _parity(one.record.parity), _parity(two.record.parity))
    first_told, second_told = _compiled(one), _compiled(two)
    # Where one side tells nothing, that is the difference.
    for kind in sorted(first_told.keys() & second_told.keys()):
        yield from _fields(kind, place, first_told[kind], second_told[kind])
    numbers: Sequence[Mapping[str, Number]] = [numbers_of(e) for e in (one, two)]
    for kind in sorted(numbers[0].keys() | numbers[1].keys()):
        first, second = (table.get(kind) for table in numbers)
        if first is None or second is None:
            before, after = (NONE if n is None else str(n.value) for n in (first, second))
            yield Change(kind, place, "", before, after)
        elif first.value != second.value:
            yield _number(kind, place, first.value, second.value)


def _parity(parity: Parity) -> dict[str, str]:
    if not isinstance(parity, ParityRan):
        return {"status": "not run here"}
    return {"status": "ran", "max_abs": parity.max_abs, "max_rel": parity.max_rel}


def _compiled(executable: ReviewedExecutable) -> dict[str, dict[str, Any]]:
    evidence = executable.evidence
    if evidence is None or evidence.compiled is UNSET:
        return {}
    known: ExecutableEvidence = evidence.compiled
    return {
        "operations": known.operations,
        "compilation": known.compilation.options,
        "placement": {
            f"{place.name} {step}": number
            for place in known.placement
            if place.name != XLA
            for step, number in place.steps.items()
        },
    }


def _remaining(before: Review, after: Review, changes: Sequence[Change]) -> Iterator[Change]:
    """A change for evidence that differs in something that is not compared by itself."""
    told = {change.kind for change in changes} & {"coverage", "operations", "placement"}
    for name in sorted(before.targets.keys() & after.targets.keys()):
        refs = [r.targets[name].manifest.evidence for r in (before, after)]
        first, second = (NONE if ref is UNSET else ref.digest[:19] for ref in refs)
        if first != second and not told:
            yield Change("evidence", name, "", first, second)


def _structs(kind: str, place: str, one: Any, two: Any) -> Iterator[Change]:
    yield from _fields(kind, place, msgspec.to_builtins(one), msgspec.to_builtins(two))


def _fields(
    kind: str, place: str, one: Mapping[str, Any], two: Mapping[str, Any]
) -> Iterator[Change]:
    """A change wherever two documents differ."""
    for path, first, second in differing(one, two):
        yield Change(kind, place, path, _shown(first), _shown(second))


def _shown(value: Any) -> str:
    if value is UNSET:
        return NONE
    text = value if isinstance(value, str) else canonical.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else sha256(text.encode())[:19]


def _presence(one: object, two: object) -> tuple[str, str]:
    return NONE if one is None else "there", NONE if two is None else "there"


def _number(kind: str, place: str, before: int, after: int) -> Change:
    return Change(kind, place, "", str(before), str(after), (before, after))


def _sizes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def _place(executable: ReviewedExecutable) -> str:
    return f"{executable.label} for {executable.target}"
