"""The sections on a bundle: its identity and signers, and sources, tools and builders.

The latter are from the predicates of attestations, which may be any JSON: those of the shape of
provenance or of a bill of materials are shown as such, others unchanged.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from aotc.bundle.read.bundle_review import KINDS, Claim, Review
from aotc.bundle.read.differences import leaves
from aotc.commands.report_page.page_parts import (
    Facts,
    Folded,
    Group,
    Mark,
    Part,
    Text,
    alike,
    comma_list,
    table,
)
from aotc.report.report_text import count, size
from aotc_runtime.base import canonical_json
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE, PROVENANCE_TYPE
from aotc_runtime.schema.bundle_manifest import BundleManifest

SBOM_TYPES = ("https://cyclonedx.org/bom", "https://cyclonedx.org/schema")
"""Predicate types of CycloneDX, https://github.com/in-toto/attestation/blob/main/spec/predicates."""

ROWS_MAX = 2000
"""Rows of one table that are shown; an attestation may be as long as its limit allows."""

CARD_BYTES_MAX = 2**20
"""Bytes of a model card that are read."""

FLAT_MAX = 40
"""Leaves that are told in one line."""


def identity(review: Review) -> Iterator[Part]:
    """Name, root, targets, and how large it is."""
    first = next(iter(review.targets.values())).manifest
    executables = list(review.executables())
    facts = [
        ("name", review.name),
        ("version", review.version),
        ("root digest", review.root_digest),
        ("format", first.format_version),
        ("targets", comma_list(review.targets)),
        ("entry points", comma_list(dict.fromkeys(e.entry_point for e in executables))),
        ("executables", str(len(executables))),
        ("size", size(sum(review.sizes.values()))),
    ]
    yield Facts(tuple(facts))
    if review.absent:
        absent = f"Signed with the bundle, but absent from this copy: {comma_list(review.absent)}."
        yield Text(absent, "bad")
    if review.unread:
        left = size(sum(review.unread.values()))
        yield Text(f"Its weights, {left}, were left in the registry and not hashed.", "bad")
    known = {media_type: index for index, media_type in enumerate(KINDS)}
    ordered = sorted(review.sizes.items(), key=lambda at: (known.get(at[0], len(known)), at[0]))
    rows = [(KINDS.get(media_type, media_type), size(number)) for media_type, number in ordered]
    yield table("Size by content", ("Content", ">Size"), rows)
    card = (first.assets or {}).get("card")
    for path, ref in card.files.items() if card and card.kind == "file" else ():
        text = str(review.contents.blobs[ref.digest][:CARD_BYTES_MAX], "utf-8", "replace")
        lines = [Text(line) for line in text.splitlines() if line.strip()]
        yield Folded(f"Model card: {path}{_cut(len(lines))}", tuple(lines[:ROWS_MAX]))


def signers(review: Review, policy: dict[str, Any] | None) -> Iterator[Part]:
    """policy: as `aotc.report.trust_report.policy_document` has it; None if nobody was asked."""
    if policy is None:
        but = "all digests but those of its weights were" if review.unread else "its digests were"
        yield Text(
            "No signature was verified, and everything on this page is the bundle's own claim; "
            f"{but} checked. Pass --trust POLICY to verify its signers.",
            "bad",
        )
    else:
        keys = policy["keys"]
        roles = (("signer", keys), ("certifier", policy["certifiers"]))
        yield Text(
            f"A trust policy for {policy['name']} accepts this bundle: "
            f"{len(review.signers)} of its {count(len(keys), 'key')} signed, {policy['threshold']} "
            "needed. What its rules ask of a host was not asked here.",
            "good",
        )
        yield table(
            "Keys of the policy",
            ("Key", "Id", "Role", "State", "Signed this bundle"),
            [
                (_key_label(key), key["id"], role, key["state"], _signature_mark(key, role, review))
                for role, known in roles
                for key in known
            ],
        )
    if review.claims:
        yield table(
            "Attestations in the bundle",
            ("Statement", "Signed by, as it says", "Counts"),
            [_claim(claim, review.verified) for claim in review.claims],
        )
    else:
        yield Text("The bundle holds no attestation: it is unsigned.", "bad")


def _key_label(key: dict[str, Any]) -> str:
    """Return a key's name and whose it is, as far as the policy says."""
    name, holder = key["name"], key["holder"]
    if name and holder and name != holder:
        return f"{name}, held by {holder}"
    return name or holder or "unnamed"


def _signature_mark(key: dict[str, Any], role: str, review: Review) -> Mark:
    if role == "certifier":
        return Mark("its certificates count: aotc compat", "plain")
    if key["id"] in review.signers:
        return Mark("yes, and it counts", "good")
    return Mark("no signature that counts", "plain")


def _claim(claim: Claim, verified: bool) -> tuple[str, str, Mark]:
    kind = {PROVENANCE_TYPE: "SLSA provenance", CERTIFICATE_TYPE: "certificate"}
    what = kind.get(claim.predicate_type, claim.predicate_type)
    return (
        what,
        comma_list(key or "a key without id" for key in claim.key_ids),
        counts(claim, verified),
    )


def counts(claim: Claim, verified: bool) -> Mark:
    """Return whether somebody whom the policy trusts signed it."""
    if not verified:
        return Mark("not checked", "bad")
    return Mark("yes", "good") if claim.counts else Mark("no signer of the policy", "plain")


def toolchain(review: Review) -> Iterator[Part]:
    """Yield the toolchain, the weights and the assets."""
    manifests = [(name, target.manifest) for name, target in review.targets.items()]
    yield table(
        "Built with",
        ("Targets", "aotc", "jax", "jaxlib", "jaxlib commit", "StableHLO", "Others"),
        [
            (
                *(comma_list(names), made.aotc, made.jax, made.jaxlib, made.jaxlib_commit),
                *(
                    made.stablehlo,
                    comma_list(f"{n} {version}" for n, version in made.tools.items()),
                ),
            )
            for names, made in alike((name, manifest.built_with) for name, manifest in manifests)
        ],
    )
    rows = []
    for targets, sets in alike((name, _weights(manifest)) for name, manifest in manifests):
        rows += [(*row, comma_list(targets)) for row in sets]
    if rows:
        columns = ("Name", "From", ">Tensors, files", ">Size", "Digests", "Targets")
        yield table("Weights and assets", columns, rows)


def _weights(manifest: BundleManifest) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            name,
            weights.origin,
            f"{len(weights.tensors):,}",
            size(sum(ref.size for ref in weights.blobs)),
            comma_list(ref.digest for ref in weights.blobs),
        )
        for name, weights in manifest.weights.items()
    ] + [
        (name, asset.kind, f"{len(refs):,}", size(sum(r.size for r in refs)), comma_list(digests))
        for name, asset in (manifest.assets or {}).items()
        for refs in [asset.files.values()]
        for digests in [[ref.digest for ref in refs]]
    ]


def provenance(review: Review) -> Iterator[Part]:
    """Yield every statement about how the bundle came to be, and its bills of materials."""
    shown = [claim for claim in review.claims if claim.predicate_type != CERTIFICATE_TYPE]
    if not shown:
        yield Text("The bundle says nothing of how it came to be: it holds no provenance.", "bad")
        return
    for number, claim in enumerate(shown, start=1):
        mark = counts(claim, review.verified)
        by = comma_list(key[:16] or "a key without id" for key in claim.key_ids)
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
    text = comma_list(f"{algorithm}:{_word(digest)}" for algorithm, digest in known)
    if text == "-":
        text = _flat(_at(source, "annotations"))
    return _word(_at(source, "name")), _word(_at(source, "uri")), text


def _bill(predicate: Any) -> Iterator[Part]:
    model = _at(predicate, "metadata", "component")
    owners = comma_list(_word(_at(each, "name")) for each in _list(_at(model, "authors")))
    facts = (("licence", _flat(_at(model, "licenses"))), ("owners", owners))
    if stated := tuple(fact for fact in facts if fact[1] != "-"):
        yield Facts(stated)
    if card := _at(model, "modelCard"):
        yield _as_it_stands("Model card", card)
    components = _list(_at(predicate, "components"))
    columns = ("name", "type", "version", "purl")
    rows = [[_word(_at(each, key)) for key in columns] for each in components[:ROWS_MAX]]
    listing = table("Components", ("Component", "Kind", "Version", "Package URL"), rows)
    yield Folded(f"Components: {len(components):,}{_cut(len(components))}", (listing,))


def _as_it_stands(title: str, value: Any) -> Part:
    rows = list(islice(_leaves(value), ROWS_MAX + 1))
    listing = table(title, ("Field", "Value"), rows[:ROWS_MAX])
    more = f", the first {ROWS_MAX:,} fields" if len(rows) > ROWS_MAX else ""
    return Folded(f"{title}{more}", (listing,))


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    return ((path or "value", _word(found)) for path, found in leaves(value))


def _flat(value: Any) -> str:
    return comma_list(
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
