"""JSON that is spelled otherwise, repeats keys, or is a bomb."""

from __future__ import annotations

import json

import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime import limits
from aotc_runtime.errors import AotcError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.verification.verify import read_root

from .tampering import (
    ACCEPTED,
    MANIFEST,
    Documents,
    MemoryBundle,
    code_of,
    digest_of,
    policy_for,
    put_together,
    roles,
    root_digest,
    signed_envelope,
    statement_about,
    to_json,
)


def respelled(data: bytes, how: str) -> bytes:
    """The same value, spelled otherwise."""
    value = json.loads(data)
    text = data.decode()
    first = json.dumps(next(iter(value)))
    return {
        "spaces": lambda: json.dumps(value, sort_keys=True).encode(),
        "a newline at the end": lambda: data + b"\n",
        "another key order": lambda: json.dumps(
            dict(sorted(value.items(), reverse=True)), separators=(",", ":")
        ).encode(),
        "an escape": lambda: text.replace('"digest"', '"d\\u0069gest"', 1).encode(),
        "a key twice": lambda: text.replace("{", "{" + first + ":0,", 1).encode(),
        "a number as a float": lambda: text.replace('"size":', '"size":0.0e0+', 1).encode(),
        "an unknown field": lambda: to_json({**value, "zzz": 1}),
        "a byte order mark": lambda: b"\xef\xbb\xbf" + data,
        "another encoding": lambda: text.encode("utf-16"),
        "a default spelled out": lambda: to_json({**value, "annotations": {}}),
    }[how]()


SPELLINGS = [
    "spaces",
    "a newline at the end",
    "another key order",
    "an escape",
    "a key twice",
    "a number as a float",
    "an unknown field",
    "a byte order mark",
    "another encoding",
    "a default spelled out",
]


def redigested(bundle: MemoryBundle, role: str, data: bytes, signer: LocalSigner) -> MemoryBundle:
    """Other bytes for a document, every digest above it put right, and signed anew."""
    chain = ["bundle manifest", "image manifest", "root index"]
    old = roles(bundle)
    blobs = {digest: blob for digest, blob in bundle.blobs.items() if digest != old[role]}
    blobs[digest_of(data)] = data
    child, new = old[role], data
    for parent in chain[chain.index(role) + 1 :]:
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


CHAIN = pytest.mark.parametrize("role", ["bundle manifest", "image manifest", "root index"])


@CHAIN
def test_redigesting_alone_is_accepted(
    role: str, genuine: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    same = redigested(genuine, role, genuine.blobs[roles(genuine)[role]], ours)
    assert code_of(same, policy_for(ours), host) == ACCEPTED


@CHAIN
@pytest.mark.parametrize("how", SPELLINGS)
def test_signed_documents_have_one_spelling(
    how: str, role: str, genuine: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    data = respelled(genuine.blobs[roles(genuine)[role]], how)
    code = code_of(redigested(genuine, role, data, ours), policy_for(ours), host)
    assert code in ("AOTC-E101", "AOTC-E102")
    if how in ("spaces", "a newline at the end", "another key order", "an escape"):
        assert code == "AOTC-E102"


@CHAIN
@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b"1" * 9999])
def test_signed_documents_of_another_type_are_refused(
    data: bytes, role: str, genuine: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    bad = redigested(genuine, role, data, ours)
    assert code_of(bad, policy_for(ours), host) == "AOTC-E101"


@pytest.mark.parametrize("how", ["spaces", "a newline at the end", "another key order"])
def test_registries_tools_may_respell_index_json(
    how: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    again = genuine.with_file("index.json", respelled(genuine.files["index.json"], how))
    assert code_of(again, policy, host) == ACCEPTED


def test_registries_tools_may_drop_and_add_fields_of_index_json(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    index = json.loads(genuine.files["index.json"])
    del index["mediaType"]
    for entry in index["manifests"]:
        del entry["artifactType"]
        entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    assert code_of(genuine.with_file("index.json", to_json(index)), policy, host) == ACCEPTED


@pytest.mark.parametrize("name", ["index.json", "oci-layout"])
@pytest.mark.parametrize("how", ["a key twice", "a byte order mark", "another encoding"])
def test_index_json_that_readers_could_take_differently_is_refused(
    how: str, name: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    bad = genuine.with_file(name, respelled(genuine.files[name], how))
    assert code_of(bad, policy, host) == "AOTC-E106"


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b'{"schemaVersion":1e999}'],
    ids=["empty", "null", "object", "no text", "deep list", "deep object", "huge number"],
)
def test_index_json_bombs_are_refused(
    data: bytes, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    assert code_of(genuine.with_file("index.json", data), policy, host) == "AOTC-E106"


def test_an_index_json_beyond_its_limit_is_refused(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    data = genuine.files["index.json"]
    at_limit = data + b" " * (limits.INDEX_BYTES_MAX - len(data))
    assert code_of(genuine.with_file("index.json", at_limit), policy, host) == ACCEPTED
    assert code_of(genuine.with_file("index.json", at_limit + b" "), policy, host) == "AOTC-E111"


def test_an_index_json_with_countless_attestations_is_refused_before_any_is_read(
    genuine: MemoryBundle,
) -> None:
    index = json.loads(genuine.files["index.json"])
    index["manifests"] += [index["manifests"][1]] * limits.ATTESTATIONS_MAX
    with pytest.raises(AotcError) as refused:
        read_root(genuine.with_file("index.json", to_json(index)))
    assert refused.value.code == "AOTC-E111"


@pytest.mark.parametrize("how", ["a key twice", "a byte order mark"])
def test_an_envelope_and_its_statement_are_read_one_way(
    how: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    payload = to_json(statement_about(root_digest(documents)))
    documents.envelopes = [respelled(signed_envelope(payload, ours), how)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E106"
    documents.envelopes = [signed_envelope(respelled(payload, how), ours)]
    assert code_of(put_together(documents), policy_for(ours), host) == "AOTC-E106"
