"""Blobs that are missing, swapped, superfluous, or of another size; and what is used is what was
hashed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime import limits
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.verify import verify

from .archives import on_disk
from .tampering import (
    ROLES,
    Documents,
    MemoryBundle,
    code_of,
    digest_of,
    flipped,
    policy_for,
    put_together,
    roles,
    signed,
    swap_layer,
    to_json,
)

FORMS = pytest.mark.parametrize("form", ["archive", "folder"])


@FORMS
@pytest.mark.parametrize("role", ROLES)
def test_a_missing_blob_is_refused(
    role: str,
    form: str,
    genuine: MemoryBundle,
    policy: TrustPolicy,
    host: HostFacts,
    tmp_path: Path,
) -> None:
    bad = genuine.without(roles(genuine)[role])
    assert code_of(open_bundle(on_disk(bad, form, tmp_path)), policy, host) == "AOTC-E202"


@pytest.mark.parametrize("change", ["shorter", "longer", "empty"])
@pytest.mark.parametrize("role", ROLES)
def test_a_blob_of_another_size_is_refused(
    role: str, change: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    digest = roles(genuine)[role]
    data = genuine.blobs[digest]
    bad = {"shorter": data[:-1], "longer": data + b" ", "empty": b""}[change]
    assert code_of(genuine.with_blob(digest, bad), policy, host) == "AOTC-E203"


@FORMS
def test_two_blobs_that_changed_places_are_refused(
    form: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    """Two modules of one size: only their digests tell them apart."""
    same_size = [
        digest
        for digest, data in genuine.blobs.items()
        if sum(len(other) == len(data) for other in genuine.blobs.values()) == 2
    ]
    one, two = same_size
    assert genuine.blobs[one] != genuine.blobs[two]
    bad = genuine.with_blob(one, genuine.blobs[two]).with_blob(two, genuine.blobs[one])
    assert code_of(open_bundle(on_disk(bad, form, tmp_path)), policy, host) == "AOTC-E201"


@FORMS
def test_a_blob_that_nobody_refers_to_is_refused(
    form: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    extra = b"extra"
    bad = genuine.with_blob(digest_of(extra), extra)
    assert code_of(open_bundle(on_disk(bad, form, tmp_path)), policy, host) == "AOTC-E204"


def test_the_same_bytes_under_a_second_name_are_refused(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    weights = genuine.blobs[roles(genuine)["weights"]]
    assert code_of(genuine.with_blob("sha256:" + "0" * 64, weights), policy, host) == "AOTC-E204"


@pytest.mark.parametrize("role", ["weights", "module", "executable", "fixture"])
def test_a_layer_replaced_and_redigested_up_to_the_root_meets_the_old_signature(
    role: str, genuine: MemoryBundle, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    digest = roles(genuine)[role]
    swap_layer(documents, digest, flipped(genuine.blobs[digest]))
    assert code_of(put_together(documents), policy, host) == "AOTC-E305"


@pytest.mark.parametrize("role", ["weights", "module", "executable", "fixture"])
def test_an_image_manifest_may_not_refer_to_other_layers_than_its_bundle_manifest(
    role: str, genuine: MemoryBundle, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    digest = roles(genuine)[role]
    manifest = json.loads(to_json(documents.manifest))
    swap_layer(documents, digest, flipped(genuine.blobs[digest]))
    documents.targets[0].manifest = manifest
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E205"


def test_a_layer_that_the_manifest_does_not_mention_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    extra = b"extra"
    reference = {"digest": digest_of(extra), "size": len(extra)}
    kind = "application/vnd.aotc.executable.v1"
    documents.image["layers"].append({"mediaType": kind, **reference})
    documents.layers[digest_of(extra)] = extra
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E205"


def test_a_layer_that_is_missing_from_the_image_manifest_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    del documents.layers[documents.image["layers"].pop()["digest"]]
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E205"


def test_a_layer_under_another_media_type_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.image["layers"][0]["mediaType"] = "application/vnd.aotc.weights.v1+safetensors"
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E205"


@pytest.mark.parametrize("place", ["layer", "manifest"])
def test_a_layer_with_another_size_than_its_blob_is_refused(
    place: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    if place == "layer":
        documents.image["layers"][0]["size"] += 1
    else:
        documents.profile["executable"]["size"] += 1
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E205"


def test_a_size_that_is_wrong_everywhere_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    digest = documents.profile["executable"]["digest"]
    documents.profile["executable"]["size"] += 1
    for layer in documents.image["layers"]:
        layer["size"] += layer["digest"] == digest
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E203"


@pytest.mark.parametrize("document", ["root index", "image manifest", "attestation", "envelope"])
def test_documents_beyond_their_limit_are_refused_before_they_are_parsed(
    document: str,
    genuine: MemoryBundle,
    policy: TrustPolicy,
    host: HostFacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = {
        "root index": "INDEX_BYTES_MAX",
        "image manifest": "MANIFEST_BYTES_MAX",
        "attestation": "MANIFEST_BYTES_MAX",
        "envelope": "ENVELOPE_BYTES_MAX",
    }[document]
    size = len(genuine.blobs[roles(genuine)[document]])
    if document != "root index":
        monkeypatch.setattr(limits, limit, size - 1)
        assert code_of(genuine, policy, host) == "AOTC-E111"
    else:
        monkeypatch.setattr(limits, limit, len(genuine.files["index.json"]) - 1)
        assert code_of(genuine, policy, host) == "AOTC-E111"


def test_what_was_verified_is_a_copy_and_what_is_used(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    """Somebody writes into the file between verification and use: all but the weights, which stay
    mapped, are the bytes that were hashed."""
    path = on_disk(genuine, "archive", tmp_path)
    verified = verify(open_bundle(path), policy, host)
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(len(data)))
    weights = roles(genuine)["weights"]
    for digest, blob in verified.blobs.items():
        assert (bytes(blob.data) == genuine.blobs[digest]) == (digest != weights)
    assert isinstance(verified.manifest, BundleManifest)


def test_a_file_replaced_by_renaming_leaves_an_opened_bundle_as_it_was(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    path = on_disk(genuine, "archive", tmp_path)
    source = open_bundle(path)
    other = tmp_path / "other"
    other.write_bytes(bytes(len(path.read_bytes())))
    other.replace(path)
    verified = verify(source, policy, host)
    other.write_bytes(b"")
    other.replace(path)
    assert all(bytes(b.data) == genuine.blobs[d] for d, b in verified.blobs.items())
