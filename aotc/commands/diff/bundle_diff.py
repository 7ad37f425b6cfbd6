"""Differences between two bundles as data: identity, sources, toolchain, figures of executables.

`aotc diff --help` lists the kinds of changes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aotc.bundle.read.bundle_facts import Changed, Part, compare
from aotc.bundle.read.bundle_review import Review
from aotc.bundle.read.differences import compare_modules, differing
from aotc.compile.mlir.module_texts import texts
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema import shard_layout
from aotc_runtime.schema.bundle_manifest import BlobRef, Evaluation, Parity, ParityRan, WeightTensor

SHOWN_MAX = 60
"""Longer values are told by their digest."""

NONE = "-"
"""The value of a key that is missing on one side."""

PROOF_ERRORS = "proof errors"
"""The end of the path of a change that is about errors of trials."""

KINDS = {
    "identity": "name, version, format",
    "targets": "targets that one of them lacks, and what a target is compiled for",
    "toolchain": "versions of what compiled, and the accepted jaxlib",
    "weights": "tensors and their files",
    "assets": "files that travel with the program",
    "interface": "entry points: parameters, inputs, outputs, dimensions, policies, tolerances",
    "profiles": "profiles that one of them lacks",
    "module": "StableHLO",
    "operations": "operations of modules, by name",
    "executable": "the bytes of executables",
    "compilation": "options of the compiler",
    "placement": "who does which part of the work",
    "fixture": "what executables were checked with",
    "parity": "how they compared with plain JAX",
    "metrics": "task metrics of evaluations",
    "precision": "element types of weights that the build quantized",
    "coverage": "lines of the program that were traced",
    "evidence": "the evidence, where nothing else of it is listed",
}
"""Kinds of changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    `place` is an executable, entry point, target and so on, or "" for the bundle, and `path` a part
    of it, or "". `before` and `after` are texts, "-" for a missing value; `numbers` has both if
    they are numbers.
    """

    kind: str
    place: str
    path: str
    before: str
    after: str
    numbers: tuple[int, int] | None = None

    @property
    def is_rounding(self) -> bool:
        """Return whether it is an error against plain JAX, within the tolerance on both sides."""
        if NONE in (self.before, self.after):
            return False
        is_error = self.path in ("max_abs", "max_rel") or self.path.endswith(PROOF_ERRORS)
        return self.kind == "ulp" or (self.kind == "parity" and is_error)

    @property
    def where(self) -> str:
        """Return both as text."""
        return f"{self.place} {self.path}".strip()


@dataclass(frozen=True, slots=True)
class ModuleDiff:
    """The difference of two modules of the same executables, as text.

    `before` and `after` are digests. `lines` begin with "-", "+", " " or "@@"; `left_out` counts
    further ones; `note` is why there are none, although the modules differ.
    """

    places: tuple[str, ...]
    before: str
    after: str
    lines: tuple[str, ...]
    left_out: int
    note: str


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences of two bundles.

    `changes` are in the order of `KINDS`, then numbers; `modules` has texts of changed ones.
    """

    before: Review
    after: Review
    changes: tuple[Change, ...]
    modules: tuple[ModuleDiff, ...]

    @property
    def is_same(self) -> bool:
        """Return whether the bundles have the same root digest and targets of it."""
        roots = self.before.root_digest == self.after.root_digest
        return roots and self.before.targets.keys() == self.after.targets.keys()


def diff(before: Review, after: Review, *, lines_max: int) -> Diff:
    """Compare two bundles; `lines_max` limits a module's text diff.

    Raises UsageError (AOTC-E057) for a module that this jaxlib cannot read.
    """
    changes = [*_bundles(before, after)]
    if before.root_digest == after.root_digest:
        return Diff(before, after, tuple(changes), ())
    pairs: dict[tuple[str, str], list[str]] = {}
    for each in sorted(compare(before.targets, after.targets), key=_rank):
        changes += _changes(each)
        if each.fact.field == "module" and each.in_both:
            digests = each.before.digest, each.after.digest
            pairs.setdefault(digests, []).append(_place(each))
    modules = _modules(pairs, before, after, lines_max)
    changes += _remaining(before, after, changes)
    order = {kind: index for index, kind in enumerate(KINDS)}
    # Stable: within a kind, changes stay in the order of targets, entry points and profiles.
    changes.sort(key=lambda change: (order.get(change.kind, len(order)), change.kind))
    return Diff(before, after, tuple(changes), tuple(modules))


def _modules(
    pairs: Mapping[tuple[str, str], Sequence[str]], before: Review, after: Review, lines_max: int
) -> Iterator[ModuleDiff]:
    """pairs: places by the digests of their modules."""
    blobs = {one: before.contents.blobs[one] for one, _ in pairs}
    blobs |= {two: after.contents.blobs[two] for _, two in pairs}
    read = texts([bytes(blob) for blob in blobs.values()], "modules of both bundles")
    text = dict(zip(blobs, read, strict=True))
    for (one, two), places in pairs.items():
        lines, note = compare_modules(text[one], text[two])
        kept = tuple(lines[:lines_max])
        yield ModuleDiff(tuple(places), one, two, kept, len(lines) - len(kept), note)


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


_WEIGHTS = ("origin", "tensors", "blobs")


def _rank(changed: Changed) -> tuple[int | str, ...]:
    """Return the sort key of a change: executables last, and their fields by name."""
    fact = changed.fact
    if fact.part is Part.EXECUTABLE:
        return 1, changed.target
    place = 0, changed.target, fact.part, fact.owner
    match fact.part:
        case Part.WEIGHTS:
            return *place, _WEIGHTS.index(fact.field)
        case Part.ENTRY_POINT:
            return *place, fact.field
    return place


def _place(changed: Changed) -> str:
    owner, target = changed.fact.owner, changed.target
    match changed.fact.part:
        case Part.WEIGHTS | Part.ASSET:
            return f"{target} {owner}"
        case Part.ENTRY_POINT | Part.EXECUTABLE:
            return f"{owner} for {target}"
    return f"{target} requires" if changed.fact.field == "requires" else target


def _changes(changed: Changed) -> Iterator[Change]:
    """Yield the changes of a fact; only the missing subject if one side lacks it."""
    fact, place = changed.fact, _place(changed)
    before, after = changed.before, changed.after
    key = fact.part, fact.field
    if fact.part is Part.DIMENSION:
        yield from _fields("interface", place, before, after, f"dimensions.{fact.owner}")
    elif not changed.in_both:
        if kind := _PRESENCE.get(key):
            there = [NONE if side is None else "there" for side in (before, after)]
            yield Change(kind, place, "", there[0], there[1])
    elif key == (Part.WEIGHTS, "blobs"):
        yield _files(place, before, after)
    elif fact.field in _BLOBS:
        yield Change(fact.field, place, "", before.digest[:19], after.digest[:19])
    elif fact.field == "numbers":
        for kind in sorted(before.keys() | after.keys()):
            if before.get(kind) != after.get(kind):
                yield _number(kind, place, before.get(kind), after.get(kind))
    elif key in _LISTED:
        kind, name = _LISTED[key]
        if seen := _SEEN.get(key):
            before, after = seen(before), seen(after)
        yield from _fields(kind, place, before, after, name)
    elif fact.part is Part.ENTRY_POINT:
        yield from _fields("interface", place, before, after, fact.field)


def _files(place: str, before: Sequence[BlobRef], after: Sequence[BlobRef]) -> Change:
    files = [[ref.digest for ref in side] for side in (before, after)]
    same = len(set(files[0]) & set(files[1]))
    first, second = (_value_text(f) if len(f) > 1 else f[0][:19] for f in files)
    rest = f" (of {len(files[1])} files {same} are the same)" if same else ""
    return Change("weights", place, f"values{rest}", first, second)


def _tensor(tensor: WeightTensor) -> str:
    data = f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"
    return f"{data} cut {shard_layout.text(tensor.sharding)}" if tensor.sharding else data


def _parity(parity: Parity) -> dict[str, str]:
    if not isinstance(parity, ParityRan):
        return {"status": "not run here"}
    return {"status": "ran", "max_abs": parity.max_abs, "max_rel": parity.max_rel}


def _proofs(proofs: Mapping[str, Any]) -> dict[str, str]:
    """Return the trials by dimension, and separately the difference of each from plain JAX."""
    known: dict[str, str] = {}
    for name, proof in proofs.items():
        trials = [msgspec.structs.replace(trial, **_NO_ERRORS) for trial in proof]
        known[f"{name} proof"] = canonical_json.encode(trials).decode()
        errors = [(trial.max_abs, trial.max_rel, trial.ulp_max) for trial in proof]
        known[f"{name} {PROOF_ERRORS}"] = canonical_json.encode(errors).decode()
    return known


_NO_ERRORS = {"max_abs": "", "max_rel": "", "ulp_max": 0}


def _metrics(evaluations: tuple[Evaluation, ...] | UnsetType) -> dict[str, Any]:
    """Return what is compared of evaluations, by metric and field."""
    return {
        f"{each.metric} {name}": field
        for each in evaluations or ()
        for part in (each, each.result)
        for name, field in msgspec.to_builtins(part).items()
        if name not in ("metric", "result")
    }


_PRESENCE = {
    (Part.WEIGHTS, "origin"): "weights",
    (Part.ASSET, "files"): "assets",
    (Part.ENTRY_POINT, "function"): "interface",
}
"""Kinds of changes that say that one of them lacks an owner, each by one of its facts."""

_BLOBS = ("module", "executable", "fixture")

_LISTED = {
    (Part.MANIFEST, "target"): ("targets", ""),
    (Part.MANIFEST, "requires"): ("targets", ""),
    (Part.MANIFEST, "mesh"): ("targets", "mesh"),
    (Part.MANIFEST, "built_with"): ("toolchain", ""),
    (Part.MANIFEST, "accepts_jaxlib"): ("toolchain", "accepts_jaxlib"),
    (Part.MANIFEST, "compilation"): ("compilation", "compilation"),
    (Part.WEIGHTS, "origin"): ("weights", "origin"),
    (Part.WEIGHTS, "tensors"): ("weights", ""),
    (Part.ASSET, "files"): ("assets", ""),
    (Part.ENTRY_POINT, "proofs"): ("parity", ""),
    (Part.ENTRY_POINT, "recorded results"): ("parity", "recorded results"),
    (Part.ENTRY_POINT, "evaluations"): ("metrics", ""),
    (Part.ENTRY_POINT, "profiles"): ("profiles", ""),
    (Part.ENTRY_POINT, "coverage"): ("coverage", ""),
    (Part.EXECUTABLE, "precision"): ("precision", ""),
    (Part.EXECUTABLE, "platform"): ("compilation", "platform"),
    (Part.EXECUTABLE, "parity"): ("parity", ""),
    (Part.EXECUTABLE, "operations"): ("operations", ""),
    (Part.EXECUTABLE, "compilation"): ("compilation", ""),
    (Part.EXECUTABLE, "placement"): ("placement", ""),
}
"""The kind of a fact's changes, and what begins their paths. What is not listed of an entry point
is its interface; what is not listed of a manifest or an executable follows from that, or is told
for the whole bundle.
"""

_SEEN: dict[tuple[Part, str], Callable[[Any], Any]] = {
    (Part.WEIGHTS, "tensors"): lambda tensors: {each.name: _tensor(each) for each in tensors},
    (Part.ASSET, "files"): lambda asset: {path: ref.digest for path, ref in asset.files.items()},
    (Part.ENTRY_POINT, "proofs"): _proofs,
    (Part.ENTRY_POINT, "evaluations"): _metrics,
    (Part.ENTRY_POINT, "profiles"): lambda all: {each or "without sizes": "there" for each in all},
    (Part.EXECUTABLE, "parity"): _parity,
}
"""Parts of facts' values that are compared, where not the whole value is."""


def _remaining(before: Review, after: Review, changes: Sequence[Change]) -> Iterator[Change]:
    """Yield a change for evidence that differs in something that is not compared by itself."""
    told = {change.kind for change in changes} & {"coverage", "operations", "placement"}
    for name in sorted(before.targets.keys() & after.targets.keys()):
        refs = [r.targets[name].manifest.evidence for r in (before, after)]
        first, second = (NONE if ref is UNSET else ref.digest[:19] for ref in refs)
        if first != second and not told:
            yield Change("evidence", name, "", first, second)


def _fields(kind: str, place: str, before: Any, after: Any, name: str = "") -> Iterator[Change]:
    """Yield a change wherever two values differ. name: of the value, in paths."""
    for path, one, two in differing(_plain(before), _plain(after), name):
        yield Change(kind, place, path, _value_text(one), _value_text(two))


def _plain(value: Any) -> Any:
    return UNSET if value is None or value is UNSET else msgspec.to_builtins(value)


def _value_text(value: Any) -> str:
    if value is UNSET:
        return NONE
    text = value if isinstance(value, str) else canonical_json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else sha256(text.encode())[:19]


def _number(kind: str, place: str, before: int | None, after: int | None) -> Change:
    told = [NONE if number is None else str(number) for number in (before, after)]
    numbers = None if before is None or after is None else (before, after)
    return Change(kind, place, "", told[0], told[1], numbers)
