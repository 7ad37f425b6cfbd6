"""Attestations that are missing, somebody else's, about something else, or badly written."""

import base64
import json
from collections.abc import Callable
from typing import Any

from aotc_runtime.base import limits

from ..tampering import (
    IN_TOTO,
    INDEX,
    Documents,
    MemoryBundle,
    authenticated,
    digest_of,
    envelope,
    flipped,
    put_together,
    roles,
    root_digest,
    signed,
    signed_envelope,
    statement_about,
    to_json,
)
from .case import Case, Kit, contents

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def payload_of(documents: Documents) -> bytes:
    return to_json(statement_about(root_digest(documents)))


def enveloped(make: Callable[[Kit, bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    """The good contents with the one envelope that is made from the right payload."""

    def bundle(kit: Kit) -> MemoryBundle:
        documents = kit.documents()
        documents.envelopes = [make(kit, payload_of(documents))]
        return put_together(documents)

    return bundle


def stating(**change: Any) -> Callable[[Kit], MemoryBundle]:
    """A trusted signature on another statement."""

    def make(kit: Kit, payload: bytes) -> bytes:
        return signed_envelope(to_json({**json.loads(payload), **change}), kit.ours)

    return enveloped(make)


def payload(change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    """A trusted signature on a payload spelled otherwise."""
    return enveloped(lambda kit, data: signed_envelope(change(data), kit.ours))


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Kit], MemoryBundle]:
    """The good envelope with a field changed."""

    def make(kit: Kit, payload: bytes) -> bytes:
        document = json.loads(signed_envelope(payload, kit.ours))
        change(document)
        return to_json(document)

    return enveloped(make)


def signature(change: Callable[[str], str]) -> Callable[[Kit], MemoryBundle]:
    return edited(
        lambda document: document["signatures"][0].update(
            sig=change(document["signatures"][0]["sig"])
        )
    )


def spelled(change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    return enveloped(lambda kit, payload: change(signed_envelope(payload, kit.ours)))


def raw(data: bytes) -> Callable[[Kit], MemoryBundle]:
    return enveloped(lambda kit, payload: data)


def as_bytes(change: Callable[[bytes], bytes]) -> Callable[[str], str]:
    return lambda text: base64.b64encode(change(base64.b64decode(text))).decode()


def attestation(change: Callable[[dict[str, Any]], object]) -> Callable[[Kit], MemoryBundle]:
    """The document around the envelope changed, with digests put right."""

    def make(kit: Kit) -> MemoryBundle:
        old = roles(kit.bundle)["attestation"]
        document = json.loads(kit.bundle.blobs[old])
        change(document)
        return respelled(kit, to_json(document))

    return make


def respelled(kit: Kit, new: bytes) -> MemoryBundle:
    bundle = kit.bundle.without(roles(kit.bundle)["attestation"]).with_blob(digest_of(new), new)
    index = json.loads(bundle.files["index.json"])
    index["manifests"][1] |= {"digest": digest_of(new), "size": len(new)}
    return bundle.with_file("index.json", to_json(index))


def attestation_text(change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    return lambda kit: respelled(kit, change(kit.bundle.blobs[roles(kit.bundle)["attestation"]]))


def of_another_bundle(kit: Kit) -> MemoryBundle:
    """A genuine signature, moved to contents of another version."""
    documents = kit.documents()
    documents.manifest["version"] = "1.0.1"
    return put_together(documents)


def with_foreign_attestation(kit: Kit) -> MemoryBundle:
    """As before, with the attestation's document as it was, too."""
    documents = kit.documents()
    documents.manifest["version"] = "1.0.1"
    other = put_together(documents)
    index = json.loads(other.files["index.json"])
    index["manifests"][1] = json.loads(kit.bundle.files["index.json"])["manifests"][1]
    files = {**other.files, "index.json": to_json(index)}
    return MemoryBundle(files, {**kit.bundle.blobs, **other.blobs})


def config_of(data: bytes) -> Callable[[Kit], MemoryBundle]:
    def make(kit: Kit) -> MemoryBundle:
        bundle = attestation(lambda d: d["config"].update(digest=digest_of(data), size=len(data)))(
            kit
        )
        return bundle.without(roles(kit.bundle)["empty config"]).with_blob(digest_of(data), data)

    return make


def under_two_attestations(kit: Kit) -> MemoryBundle:
    """One envelope, in documents that another tool may have annotated."""
    document = json.loads(kit.bundle.blobs[roles(kit.bundle)["attestation"]])
    data = to_json({**document, "annotations": {"number": "2"}})
    index = json.loads(kit.bundle.files["index.json"])
    more = {**index["manifests"][1], "digest": digest_of(data), "size": len(data)}
    index["manifests"].append(more)
    return kit.bundle.with_blob(digest_of(data), data).with_file("index.json", to_json(index))


def large_envelopes(kit: Kit) -> MemoryBundle:
    """Each within its limit: one too many for all."""
    documents = kit.documents()
    (good,) = documents.envelopes
    count = limits.ATTESTATIONS_BYTES_MAX // limits.ENVELOPE_BYTES_MAX + 1
    documents.envelopes = [good.ljust(limits.ENVELOPE_BYTES_MAX - n) for n in range(count)]
    return put_together(documents)


ENVELOPES: dict[str, tuple[str, Callable[[Kit], MemoryBundle]]] = {
    "unsigned": ("AOTC-E301", lambda kit: signed(kit.documents())),
    "signed by a stranger": ("AOTC-E302", lambda kit: signed(kit.documents(), kit.stranger)),
    "a stranger who claims a trusted key": (
        "AOTC-E303",
        enveloped(lambda kit, data: signed_envelope(data, kit.stranger, keyid=kit.ours.key_id)),
    ),
    "a signature of another bundle": ("AOTC-E305", of_another_bundle),
    "an attestation of another bundle": ("AOTC-E114", with_foreign_attestation),
    "a flipped bit in the signature": ("AOTC-E303", signature(as_bytes(flipped))),
    "a signature of 10 000 bytes": ("AOTC-E303", signature(as_bytes(lambda sig: bytes(10_000)))),
    "a flipped bit in the payload": (
        "AOTC-E303",
        edited(lambda d: d.update(payload=as_bytes(flipped)(d["payload"]))),
    ),
    "the bare payload signed": (
        "AOTC-E303",
        enveloped(lambda kit, data: envelope(data, (kit.ours.key_id, kit.ours.sign(data)))),
    ),
    "signed as another type": (
        "AOTC-E303",
        enveloped(
            lambda kit, data: envelope(
                data, (kit.ours.key_id, kit.ours.sign(authenticated(data, "text/plain")))
            )
        ),
    ),
    "a payload of another type": (
        "AOTC-E305",
        enveloped(lambda kit, data: signed_envelope(data, kit.ours, payload_type="text/plain")),
    ),
    "no signatures": ("AOTC-E119", edited(lambda d: d.update(signatures=[]))),
    "65 signatures": (
        "AOTC-E119",
        edited(lambda d: d.update(signatures=d["signatures"] * (limits.SIGNATURES_MAX + 1))),
    ),
    "a signature twice": ("AOTC-E119", edited(lambda d: d.update(signatures=d["signatures"] * 2))),
    "a signature twice, by another name": (
        "AOTC-E119",
        edited(lambda d: d["signatures"].append({"sig": d["signatures"][0]["sig"]})),
    ),
    "an envelope of countless values": (
        "AOTC-E111",
        edited(lambda d: d.update(more=[[]] * limits.ATTESTATION_MARKS_MAX)),
    ),
    "a statement of countless values": (
        "AOTC-E111",
        stating(predicate={"more": [[]] * limits.STATEMENT_MARKS_MAX}),
    ),
    "an envelope under two attestations": ("AOTC-E114", under_two_attestations),
    "envelopes beyond their sum": ("AOTC-E111", large_envelopes),
    "base64 spelled otherwise": (
        "AOTC-E107",
        signature(lambda text: text[:-3] + ALPHABET[ALPHABET.index(text[-3]) ^ 1] + "=="),
    ),
    "a payload that is no base64": ("AOTC-E107", edited(lambda d: d.update(payload="{}"))),
    "an envelope without a payload type": ("AOTC-E106", edited(lambda d: d.pop("payloadType"))),
    "an envelope with a key twice": (
        "AOTC-E106",
        spelled(lambda data: data.replace(b"{", b'{"payload":"",', 1)),
    ),
    "an envelope without fields": ("AOTC-E106", raw(b"{}")),
    "an envelope of deep lists": ("AOTC-E106", raw(b"[" * 2_000)),
    "an envelope beyond its limit": (
        "AOTC-E111",
        spelled(lambda data: data.ljust(limits.ENVELOPE_BYTES_MAX + 1)),
    ),
}

STATEMENTS: dict[str, Callable[[Kit], MemoryBundle]] = {
    "of another version": stating(_type="https://in-toto.io/Statement/v0.1"),
    "that is a test report": stating(
        predicateType="https://in-toto.io/attestation/test-result/v0.1"
    ),
    "about nothing": stating(subject=[]),
    "about another root": stating(subject=[{"name": "x", "digest": {"sha256": "0" * 64}}]),
    "by another algorithm": stating(subject=[{"name": "x", "digest": {"sha512": "0" * 128}}]),
    "without a digest": stating(subject=[{"name": "x", "digest": {}}]),
}

ATTESTATIONS: dict[str, tuple[str, Callable[[Kit], MemoryBundle]]] = {
    "without subject": ("AOTC-E114", attestation(lambda d: d.pop("subject"))),
    "about another root": (
        "AOTC-E114",
        attestation(lambda d: d["subject"].update(digest="sha256:" + "0" * 64)),
    ),
    "with two envelopes": ("AOTC-E114", attestation(lambda d: d["layers"].extend(d["layers"]))),
    "without envelope": ("AOTC-E114", attestation(lambda d: d["layers"].clear())),
    "with an envelope of another type": (
        "AOTC-E106",
        attestation(lambda d: d["layers"][0].update(mediaType="application/x-pickle")),
    ),
    "of another media type": ("AOTC-E106", attestation(lambda d: d.update(mediaType=INDEX))),
    "with an unknown field": ("AOTC-E106", attestation(lambda d: d.update(data=IN_TOTO))),
    "with a key twice": (
        "AOTC-E106",
        attestation_text(lambda data: data.replace(b"{", b'{"schemaVersion":2,', 1)),
    ),
    "of countless values": (
        "AOTC-E111",
        attestation(
            lambda d: d.update(
                annotations={str(n): "" for n in range(limits.ATTESTATION_MARKS_MAX)}
            )
        ),
    ),
    "beyond its limit": (
        "AOTC-E111",
        attestation_text(lambda data: data.ljust(limits.ATTESTATION_BYTES_MAX + 1)),
    ),
    "with a large config": ("AOTC-E111", config_of(b"{ }")),
    "with a config of 1 TiB": ("AOTC-E203", attestation(lambda d: d["config"].update(size=2**40))),
}

SIGNATURES: tuple[Case, ...] = (
    *(contents(name, code, make) for name, (code, make) in ENVELOPES.items()),
    *(contents(f"a statement {how}", "AOTC-E305", make) for how, make in STATEMENTS.items()),
    contents(
        "a statement with a key twice",
        "AOTC-E106",
        payload(lambda data: data.replace(b"{", b'{"_type":"x",', 1)),
    ),
    contents("a statement that is none", "AOTC-E106", payload(lambda data: b"{}")),
    *(contents(f"an attestation {how}", code, make) for how, (code, make) in ATTESTATIONS.items()),
)
