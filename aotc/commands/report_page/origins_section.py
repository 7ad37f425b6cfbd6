"""What a bundle was made from, with what and by whom, as its attestations say.

Predicates are anybody's JSON: whatever has the shape of provenance or of a bill of materials is
shown as such, the rest as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from aotc.bundle.read.bundle_review import Review
from aotc.bundle.read.differences import leaves
from aotc.commands.report_page.identity_section import counts
from aotc.commands.report_page.page_parts import (
    Cell,
    Facts,
    Folded,
    Group,
    Part,
    Section,
    Text,
    alike,
    counts_text,
    listed,
    table,
)  # fmt: skip
from aotc.report.report_text import size
from aotc_runtime.base import canonical_json
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE, PROVENANCE_TYPE
from aotc_runtime.schema.bundle_manifest import BundleManifest

SBOM_TYPES = ("https://cyclonedx.org/bom", "https://cyclonedx.org/schema")
"""Predicate types of CycloneDX, https://github.com/in-toto/attestation/blob/main/spec/predicates."""

ROWS_MAX = 2000
"""Rows of one table that are shown; an attestation may be as long as its limit allows."""

FLAT_MAX = 40
"""Leaves that are told in one line."""


def toolchain(review: Review) -> Section:
    """What compiled it, and the weights."""
    return Section("toolchain", "Toolchain and weights", tuple(_toolchain(review)))


def _toolchain(review: Review) -> Iterator[Part]:
    manifests = [(name, target.manifest) for name, target in review.targets.items()]
    yield table(
        "Built with",
        ("Targets", "aotc", "jax", "jaxlib", "jaxlib commit", "StableHLO", "Others"),
        [_built_with(names, manifest) for names, manifest in _by_toolchain(manifests)],
    )
    rows = []
    for targets, sets in alike((name, _weights(manifest)) for name, manifest in manifests):
        rows += [(*row, listed(targets)) for row in sets]
    if rows:
        columns = ("Weights", "From", ">Tensors", ">Size", "Digests", "Targets")
        yield table("Weights", columns, rows)


def _by_toolchain(
    manifests: list[tuple[str, BundleManifest]],
) -> Iterator[tuple[list[str], BundleManifest]]:
    known = dict(manifests)
    for names, _ in alike((name, manifest.built_with) for name, manifest in manifests):
        yield names, known[names[0]]


def _built_with(names: list[str], manifest: BundleManifest) -> tuple[Cell, ...]:
    made = manifest.built_with
    others = listed(f"{name} {version}" for name, version in made.tools.items())
    return (
        listed(names),
        made.aotc,
        made.jax,
        made.jaxlib,
        made.jaxlib_commit,
        made.stablehlo,
        others,
    )


def _weights(manifest: BundleManifest) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            name,
            weights.origin,
            f"{len(weights.tensors):,}",
            size(sum(ref.size for ref in weights.blobs)),
            listed(ref.digest for ref in weights.blobs),
        )
        for name, weights in manifest.weights.items()
    ]


def provenance(review: Review) -> Section:
    """Every statement about how the bundle came to be, and its bills of materials."""
    return Section("provenance", "Provenance and bill of materials", tuple(_provenance(review)))


def _provenance(review: Review) -> Iterator[Part]:
    shown = [claim for claim in review.claims if claim.predicate_type != CERTIFICATE_TYPE]
    if not shown:
        yield Text("The bundle says nothing of how it came to be: it holds no provenance.", "bad")
        return
    for number, claim in enumerate(shown, start=1):
        mark = counts(claim, review.verified)
        by = listed(key[:16] or "a key without id" for key in claim.key_ids)
        head = Facts((("says it is signed by", by), ("counts", mark)))
        if claim.predicate_type == PROVENANCE_TYPE:
            yield Group(f"Statement {number}: provenance", (head, *_slsa(claim.predicate)))
        elif claim.predicate_type.startswith(SBOM_TYPES):
            yield Group(f"Statement {number}: bill of materials", (head, *_bill(claim.predicate)))
        else:
            title = f"Statement {number}: {claim.predicate_type}"
            yield Group(title, (head, _as_it_stands("What it says", claim.predicate)))


def _slsa(predicate: Any) -> Iterator[Part]:
    definition, run = (_at(predicate, key) for key in ("buildDefinition", "runDetails"))
    metadata = _at(run, "metadata")
    started, finished = _at(metadata, "startedOn"), _at(metadata, "finishedOn")
    facts = [
        ("build type", _word(_at(definition, "buildType"))),
        ("builder", _word(_at(run, "builder", "id"))),
        ("builder's version", _flat(_at(run, "builder", "version"))),
        ("started", _word(started)),
        ("finished", _word(finished)),
        ("revision", _flat(_at(definition, "internalParameters", "revision"))),
    ]
    yield Facts(tuple(fact for fact in facts if fact[1] != "-"))
    yield Text("How long parts of the build took is not in the bundle; `aotc build` prints it.")
    parameters = {key: _at(definition, key) for key in ("externalParameters", "internalParameters")}
    yield _as_it_stands("Parameters of the build", parameters)
    sources = _list(_at(definition, "resolvedDependencies"))
    files: list[Any] = []
    packages: list[Any] = []
    for source in sources:
        is_package = _word(_at(source, "uri")).startswith("pkg:")
        (packages if is_package else files).append(source)
    for title, found in (("Sources", files), ("Packages", packages)):
        if found:
            rows = [_resource(source) for source in found[:ROWS_MAX]]
            listing = table(title, ("Name", "From", "Digest"), rows)
            yield Folded(f"{title}: {len(found):,}{_cut(len(found))}", (listing,))


def _resource(source: Any) -> tuple[str, str, str]:
    digests = _at(source, "digest")
    known = digests.items() if isinstance(digests, dict) else ()
    text = listed(f"{algorithm}:{_word(digest)}" for algorithm, digest in known)
    if text == "-":
        text = _flat(_at(source, "annotations"))
    return _word(_at(source, "name")), _word(_at(source, "uri")), text


def _bill(predicate: Any) -> Iterator[Part]:
    components = _list(_at(predicate, "components"))
    kinds: dict[str, int] = {}
    for component in components:
        kind = _word(_at(component, "type"))
        kinds[kind] = kinds.get(kind, 0) + 1
    version = _word(_at(predicate, "specVersion"))
    yield Facts((("CycloneDX", version), ("components", counts_text(kinds))))
    if components:
        columns = ("Component", "Kind", "Version", "Scope", "Package URL", "Hashes")
        rows = [_component(component) for component in components[:ROWS_MAX]]
        listing = table("Components", columns, rows)
        yield Folded(f"Components: {len(components):,}{_cut(len(components))}", (listing,))


def _component(component: Any) -> tuple[str, ...]:
    keys = ("name", "type", "version", "scope", "purl")
    hashes = _list(_at(component, "hashes"))
    shown = listed(f"{_word(_at(h, 'alg'))}:{_word(_at(h, 'content'))}" for h in hashes)
    return (*(_word(_at(component, key)) for key in keys), shown)


def _as_it_stands(title: str, value: Any) -> Part:
    rows = list(islice(_leaves(value), ROWS_MAX + 1))
    listing = table(title, ("Field", "Value"), rows[:ROWS_MAX])
    more = f", the first {ROWS_MAX:,} fields" if len(rows) > ROWS_MAX else ""
    return Folded(f"{title}{more}", (listing,))


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    return ((path or "value", _word(found)) for path, found in leaves(value))


def _flat(value: Any) -> str:
    return listed(
        f"{path} {text}" if path != "value" else text
        for path, text in islice(_leaves(value), FLAT_MAX)
        if text != "-"
    )


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _word(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    return value if isinstance(value, str) else canonical_json.encode(value).decode()


def _cut(number: int) -> str:
    return f", the first {ROWS_MAX:,} of which are shown" if number > ROWS_MAX else ""
