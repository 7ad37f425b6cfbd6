"""Blobs that are missing, swapped, superfluous, or of another size; and what is used is what was
hashed."""

import time
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.formats.oci_layout import WEIGHTS_TYPE
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import verify

from .archives import on_disk
from .tampering import (
    Documents,
    MemoryBundle,
    code_of,
    digest_of,
    policy_for,
    roles,
    second_target,
    signed,
)


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
    verified = verify(open_bundle(path), policy, host, time.time())
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(len(data)))
    weights = roles(genuine)["weights"]
    for digest, blob in verified.blobs.items():
        assert (bytes(blob.data) == genuine.blobs[digest]) == (digest != weights)
    assert isinstance(verified.manifest, BundleManifest)


def test_executable_that_another_target_calls_weights_is_copied(
    documents: Documents, ours: LocalSigner, host: HostFacts, tmp_path: Path
) -> None:
    """Weights stay mapped, and are hashed after engines have got executables."""
    executable = documents.profile["executable"]
    second_target(documents)
    other, tensor = documents.targets[1], {"dtype": "uint8", "name": "code", "shape": [1]}
    weights = {"blobs": [executable], "origin": "init", "tensors": [tensor]}
    other.manifest["weights"]["extra"] = weights
    other.image["layers"].append({"mediaType": WEIGHTS_TYPE, **executable})
    other.image["layers"].sort(key=lambda layer: layer["digest"])
    path, name = on_disk(signed(documents, ours), "archive", tmp_path), documents.manifest["target"]
    verified = verify(open_bundle(path), policy_for(ours), host, time.time(), name["name"])
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    digest = executable["digest"]
    assert digest_of(bytes(verified.blobs[digest].data)) == digest


def test_a_file_replaced_by_renaming_leaves_an_opened_bundle_as_it_was(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    path = on_disk(genuine, "archive", tmp_path)
    source = open_bundle(path)
    other = tmp_path / "other"
    other.write_bytes(bytes(len(path.read_bytes())))
    other.replace(path)
    verified = verify(source, policy, host, time.time())
    other.write_bytes(b"")
    other.replace(path)
    assert all(bytes(b.data) == genuine.blobs[d] for d, b in verified.blobs.items())
