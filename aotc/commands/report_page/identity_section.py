"""Who a bundle is, what it holds, and who stands behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotc.bundle.read.bundle_review import KINDS, Claim, Review
from aotc.commands.report_page.page_parts import (
    Facts,
    Mark,
    Part,
    Section,
    Text,
    bars,
    listed,
    table,
)
from aotc.report.report_text import count, size
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE, PROVENANCE_TYPE

NOBODY_ASKED = "signatures were not checked"


def trust_mark(review: Review) -> Mark:
    """In two words, whether a policy accepted the bundle."""
    return Mark("accepted by a policy", "good") if review.verified else Mark(NOBODY_ASKED, "bad")


def identity(review: Review) -> Section:
    """Name, root, targets, and how large it is."""
    first = next(iter(review.targets.values())).manifest
    executables = list(review.executables())
    facts = [
        ("name", review.name),
        ("version", review.version),
        ("root digest", review.root_digest),
        ("format", first.format_version),
        ("targets", listed(review.targets)),
        ("entry points", listed(dict.fromkeys(e.entry_point for e in executables))),
        ("executables", str(len(executables))),
        ("size", size(sum(review.sizes.values()))),
    ]
    parts: list[Part] = [Facts(tuple(facts))]
    if review.absent:
        absent = f"Signed with the bundle, but absent from this copy: {listed(review.absent)}."
        parts.append(Text(absent, "bad"))
    if review.unread:
        left = size(sum(review.unread.values()))
        parts.append(Text(f"Its weights, {left}, were left in the registry and not hashed.", "bad"))
    sizes = {KINDS.get(media_type, media_type): number for media_type, number in _sizes(review)}
    parts += bars(
        "Size by what it is", [(name, {"bytes": n}) for name, n in sizes.items()], in_bytes=True
    )
    return Section("identity", "Identity", tuple(parts))


def _sizes(review: Review) -> list[tuple[str, int]]:
    known = {media_type: index for index, media_type in enumerate(KINDS)}
    return sorted(review.sizes.items(), key=lambda item: (known.get(item[0], len(known)), item[0]))


def _whole(review: Review) -> str:
    if review.unread:
        return "Digests of everything but its weights were checked."
    return "Its digests were checked: it is whole."


def signers(review: Review, policy: dict[str, Any] | None) -> Section:
    """policy: as `aotc.report.trust_report.policy_document` has it; None if nobody was asked."""
    return Section("signers", "Signers and trust", tuple(_signers(review, policy)))


def _signers(review: Review, policy: dict[str, Any] | None) -> Iterator[Part]:
    if policy is None:
        yield Text(
            "No trust policy was asked: nobody's signature was checked, and everything on this "
            f"page is what the bundle says of itself. {_whole(review)} "
            "Make this page with --trust POLICY to know who stands behind it.",
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
                (
                    _called(key),
                    key["id"],
                    role,
                    key["state"],
                    _signed(key, role, review),
                )
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


def _called(key: dict[str, Any]) -> str:
    """Return a key's name and whose it is, as far as the policy says."""
    name, holder = key["name"], key["holder"]
    if name and holder and name != holder:
        return f"{name}, held by {holder}"
    return name or holder or "unnamed"


def _signed(key: dict[str, Any], role: str, review: Review) -> Mark:
    if role == "certifier":
        return Mark("see the runtimes under Compatibility", "plain")
    if key["id"] in review.signers:
        return Mark("yes, and it counts", "good")
    return Mark("no signature that counts", "plain")


def _claim(claim: Claim, verified: bool) -> tuple[str, str, Mark]:
    kind = {PROVENANCE_TYPE: "SLSA provenance", CERTIFICATE_TYPE: "certificate"}
    what = kind.get(claim.predicate_type, claim.predicate_type)
    return what, listed(key or "a key without id" for key in claim.key_ids), counts(claim, verified)


def counts(claim: Claim, verified: bool) -> Mark:
    """Whether somebody whom the policy trusts signed it."""
    if not verified:
        return Mark("not checked", "bad")
    return Mark("yes", "good") if claim.counts else Mark("no signer of the policy", "plain")
