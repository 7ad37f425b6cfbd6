"""Signed documents in another spelling than their one, or that are something else altogether."""

import json
import re
from collections.abc import Callable

from aotc.bundle.sign.signer import LocalSigner

from ..tampering import (
    MANIFEST,
    MemoryBundle,
    digest_of,
    roles,
    signed_envelope,
    statement_about,
    to_json,
)
from .case import Case, Kit, contents

CHAIN = ("bundle manifest", "image manifest", "root index")
"""Signed documents, from the leaves to the root."""


def _with_its_first_key_twice(data: bytes) -> bytes:
    key, value = next(iter(json.loads(data).items()))
    return b"{" + to_json({key: value})[1:-1] + b"," + data[1:]


def _reversed(data: bytes) -> bytes:
    value = dict(sorted(json.loads(data).items(), reverse=True))
    return json.dumps(value, separators=(",", ":")).encode()


def with_field(data: bytes, value: bytes) -> bytes:
    """A field that no document knows, last in the order of keys."""
    return data[:-1] + b',"zzz":' + value + b"}"


SPELLED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "with spaces": (
        "AOTC-E102",
        lambda data: json.dumps(json.loads(data), sort_keys=True).encode(),
    ),
    "with a newline": ("AOTC-E102", lambda data: data + b"\n"),
    "in another key order": ("AOTC-E102", _reversed),
    "with an escape": ("AOTC-E102", lambda data: data.replace(b'"d', b'"\\u0064', 1)),
    "with a key twice": ("AOTC-E102", _with_its_first_key_twice),
    "with a number as a float": ("AOTC-E101", lambda data: re.sub(rb":(\d+)", rb":\1.5", data)),
    "with a number as an exponent": ("AOTC-E101", lambda data: re.sub(rb":(\d+)", rb":\1e0", data)),
    "with an unknown field": ("AOTC-E101", lambda data: with_field(data, b"1")),
    "with not a number": ("AOTC-E101", lambda data: with_field(data, b"NaN")),
    "after a byte order mark": ("AOTC-E101", lambda data: b"\xef\xbb\xbf" + data),
    "cut": ("AOTC-E101", lambda data: data[:-1]),
    "twice": ("AOTC-E101", lambda data: data + data),
}

OTHERS: dict[str, bytes] = {
    "empty": b"",
    "a list": b"[]",
    "deep lists": b"[" * 100_000,
    "a number of 9999 digits": b"1" * 9999,
}


def redigested(bundle: MemoryBundle, role: str, data: bytes, signer: LocalSigner) -> MemoryBundle:
    """Other bytes for a document, every digest above it put right, and signed anew."""
    old = roles(bundle)
    blobs = {digest: blob for digest, blob in bundle.blobs.items() if digest != old[role]}
    blobs[digest_of(data)] = data
    child, new = old[role], data
    for parent in CHAIN[CHAIN.index(role) + 1 :]:
        document = json.loads(blobs.pop(old[parent]))
        for reference in [document.get("config", {}), *document.get("manifests", [])]:
            if reference.get("digest") == child:
                reference |= {"digest": digest_of(new), "size": len(new)}
        child, new = old[parent], to_json(document)
        blobs[digest_of(new)] = new
    root = {"digest": digest_of(new), "size": len(new)}
    root["mediaType"] = "application/vnd.oci.image.index.v1+json"
    for name in ("attestation", "envelope"):
        del blobs[old[name]]
    envelope = signed_envelope(to_json(statement_about(str(root["digest"]))), signer)
    attestation = json.loads(bundle.blobs[old["attestation"]])
    attestation["subject"] = root
    attestation["layers"][0] |= {"digest": digest_of(envelope), "size": len(envelope)}
    wrapped = to_json(attestation)
    blobs |= {digest_of(envelope): envelope, digest_of(wrapped): wrapped}
    entry = {"mediaType": MANIFEST, "digest": digest_of(wrapped), "size": len(wrapped)}
    index = to_json({"schemaVersion": 2, "manifests": [root, entry]})
    return MemoryBundle({**bundle.files, "index.json": index}, blobs)


def spelled(role: str, change: Callable[[bytes], bytes]) -> Callable[[Kit], MemoryBundle]:
    def make(kit: Kit) -> MemoryBundle:
        data = change(kit.bundle.blobs[roles(kit.bundle)[role]])
        return redigested(kit.bundle, role, data, kit.ours)

    return make


def deeper(data: bytes) -> bytes:
    """The bundle manifest with a result of more levels than any stack has."""
    tree = b'{"items":[' * 100_000 + b'{"node":"none"}' + b'],"node":"tuple"}' * 100_000
    return re.sub(rb'"result":.*?,"static"', b'"result":' + tree + b',"static"', data, count=1)


def replaced(role: str, data: bytes) -> Callable[[Kit], MemoryBundle]:
    return lambda kit: redigested(kit.bundle, role, data, kit.ours)


SPELLINGS: tuple[Case, ...] = (
    contents("a tree deeper than any stack", "AOTC-E101", spelled("bundle manifest", deeper)),
    *(
        contents(f"{role} {how}", code, spelled(role, change), ("archive",))
        for role in CHAIN
        for how, (code, change) in SPELLED.items()
    ),
    *(
        contents(f"{role}: {how}", "AOTC-E101", replaced(role, data), ("archive",))
        for role in CHAIN
        for how, data in OTHERS.items()
    ),
)
