"""Whatever a bundle says stays text on its page: no element, no attribute, no template."""

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import msgspec
import pytest

from aotc.bundle.read.bundle_review import Review, review
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.report_page.page_renderer import page_of, render
from tests.pages import Read, read_page

from .certificates import a_certificate, certified, statement, trusting
from .provenances import NOW, a_build
from .tampering import Documents, MemoryBundle, put_together, second_target

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg></table><iframe src=//evil.example>",
    "--><!-- ]]> <![CDATA[",
    "{{ 7 * 7 }}{% raw %}{# #}",
    "&lt;b&gt; &#60;b&#62; \u003cb\u003e",
)
LEFT = {"max_abs", "max_rel", "maxAbs", "maxRel", "predicate_type", "digest", "keyid", "sizes"}
"""Numbers, and what decides how something is shown."""


def poisoned(value: Any, attack: str) -> Any:
    """The same value with the attack behind each of its texts, keys too."""
    if isinstance(value, enum.Enum) or value == "":
        return value
    if isinstance(value, str):
        return value + attack
    if isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name not in LEFT]
        changed = {name: poisoned(getattr(value, name), attack) for name in names}
        return msgspec.structs.replace(value, **changed)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in LEFT]
        return replace(value, **{name: poisoned(getattr(value, name), attack) for name in names})
    if isinstance(value, Mapping):
        return {poisoned(k, attack): poisoned(v, attack) for k, v in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return type(value)(poisoned(item, attack) for item in value)
    return value


def poisoned_json(value: Any, attack: str) -> Any:
    """Of JSON, whose keys decide how it is shown, the values."""
    if isinstance(value, dict):
        return {key: poisoned_json(item, attack) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned_json(item, attack) for item in value]
    return poisoned(value, attack)


def poisoned_review(found: Review, attack: str) -> Review:
    kept = ("contents", "envelopes", "root", "verified", "sizes", "blobs")
    names = [field.name for field in fields(found) if field.name not in kept]
    changed = {name: poisoned(getattr(found, name), attack) for name in names}
    changed["claims"] = tuple(
        replace(
            claim,
            key_ids=poisoned(claim.key_ids, attack),
            stated=msgspec.json.encode(poisoned_json(claim.predicate, attack)),
        )
        for claim in found.claims
    )
    contents = msgspec.structs.replace(
        found.contents,
        targets=poisoned(found.contents.targets, attack),
        manifests=poisoned(found.contents.manifests, attack),
    )
    sizes = {kind + attack: size for kind, size in found.sizes.items()}
    entry = msgspec.structs.replace(found.root.entry, digest=found.root_digest + attack)
    root = msgspec.structs.replace(found.root, entry=entry)
    return replace(found, **changed, contents=contents, sizes=sizes, root=root)


@pytest.fixture
def full(documents: Documents, ours: LocalSigner, stranger: LocalSigner) -> MemoryBundle:
    """Two targets, provenance, a bill of materials, and a certificate."""
    second_target(documents)
    parts = [{"type": "library", "name": "jax", "hashes": [{"alg": "SHA-256", "content": "0"}]}]
    card = {"modelParameters": {"inputs": [{"format": "x"}]}}
    model = {"authors": [{"name": "a"}], "licenses": [{"expression": "b"}], "modelCard": card}
    bill = {"specVersion": "1.7", "components": parts, "metadata": {"component": model}}
    sbom = "https://cyclonedx.org/bom"
    return certified(
        documents,
        ours,
        statement(documents, ours, bill, predicateType=sbom),
        statement(documents, stranger, a_certificate(documents)),
        statement(documents, stranger, {"free": ["text"]}, predicateType="https://example.org/x"),
    )


def page(found: Review) -> bytes:
    return render(page_of(found, None))


def shapes(read: Read) -> list[object]:
    return [element.shape for element in read.elements]


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_texts_change_nothing_but_text(full: MemoryBundle, attack: str) -> None:
    found = review(full, None, NOW)
    before, after = (read_page(page(poisoned_review(found, text))) for text in ("zz", attack))
    assert shapes(after) == shapes(before)
    assert after.comments == before.comments and after.declarations == before.declarations
    # It did get there, everywhere: as what it is.
    shown = "".join(element.text for element in after.all("body"))
    assert shown.count(attack) > 200


def test_bundle_hostile_within_format_is_shown(documents: Documents, ours: LocalSigner) -> None:
    attack = ATTACKS[0]
    entry_points = documents.manifest["entry_points"]
    entry_points["predict"]["function"] = attack
    documents.manifest["version"] = attack
    documents.manifest["built_with"]["jaxlib_commit"] = attack
    hostile = statement(documents, ours, {attack: [attack]}, predicateType=attack)
    documents.envelopes = [hostile]
    read = read_page(page(review(put_together(documents), None, NOW)))
    assert read.texts("h1") == [f"digits {attack}"] and not read.all("script")
    assert {attack, f"{attack}[0]"} <= {*read.texts("td"), *read.texts("th"), *read.texts("dd")}
    assert f"Statement 1: {attack}" in read.texts("h3")


def test_unexpected_statements_are_shown(documents: Documents, ours: LocalSigner) -> None:
    slsa, sbom = "https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"
    deep: Any = 1
    for _ in range(200):
        deep = [{"k" * 90: deep}]
    odd: list[Any] = [
        None, 1, [], "text", {}, {"components": 3, "buildDefinition": [], "runDetails": "x"},
        {"components": [None, 3, {"name": {"a": [1]}, "hashes": {"a": 1}}], "specVersion": []},
        {"metadata": {"component": {"authors": [None, 3, {"name": [1]}], "licenses": 3}}},
        {"metadata": {"component": {"authors": {}, "modelCard": deep}}},
        {"buildDefinition": {"resolvedDependencies": [None, 3, {"uri": {}, "digest": [1]}]}},
        {"buildDefinition": {"externalParameters": deep}, "runDetails": {"builder": {"id": [1]}}},
    ]  # fmt: skip
    documents.envelopes = [
        statement(documents, ours, predicate, predicateType=kind)
        for predicate in odd
        for kind in (slsa, sbom, "https://example.org/other")
    ]
    read = read_page(page(review(put_together(documents), None, NOW)))
    assert len([text for text in read.texts("h3") if text.startswith("Statement")]) == 33


def test_signature_decides(documents: Documents, ours: LocalSigner, stranger: LocalSigner) -> None:
    provenance = {"predicateType": "https://slsa.dev/provenance/v1"}
    good = statement(documents, ours, a_build(), **provenance)
    nameless = good.replace(ours.key_id.encode(), b"")
    unknown = statement(documents, stranger, a_build(), **provenance)
    documents.envelopes = [good, nameless, unknown]
    found = review(put_together(documents), trusting(ours), NOW)
    assert [claim.counts for claim in found.claims] == [(ours.key_id,), (ours.key_id,), ()]
    read = read_page(page(found))
    facts = zip(read.texts("dt"), read.texts("dd"), strict=True)
    counts = [value for name, value in facts if name == "counts"]
    assert counts == ["yes", "yes", "no signer of the policy"]
