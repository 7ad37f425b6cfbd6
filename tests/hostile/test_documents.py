"""Documents, blobs and bytes of a bundle that are other ones; bad spellings are in `generator`."""

import base64
import json
import random
import time
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.oci_layout import WEIGHTS_TYPE
from aotc_runtime.formats.tar_archive import read_members
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_runtime.verification.bundle_examination import verify
from tests.refusals import error_of

from .archives import archive, entries_of, on_disk
from .generator.contradictions import LEAF, pair
from .generator.spellings import redigested
from .tampering import (
    ACCEPTED,
    Documents,
    MemoryBundle,
    Target,
    code_of,
    digest_of,
    flipped,
    policy_for,
    put_together,
    roles,
    second_target,
    signed,
    to_json,
)
from .workbench import Workbench


def test_a_bundle_may_have_several_targets(bench: Workbench) -> None:
    documents = bench.documents
    second = json.loads(to_json([documents.image, documents.manifest]))
    second[1]["target"]["name"] = "other"
    documents.targets.append(Target(*second))
    documents.root["manifests"].append(dict(documents.root["manifests"][0]))
    assert bench.codes(bench.signed(), bench.policy()) == []


@pytest.mark.parametrize("kind", ["record", "namedtuple", "intdict"])
def test_a_structure_with_good_names_is_accepted(kind: str, bench: Workbench) -> None:
    parameters = bench.documents.manifest["entry_points"]["predict"]["parameters"]
    numbered = {"node": "intdict", "keys": [0], "items": [LEAF]}
    parameters[0]["tree"] = numbered if kind == "intdict" else pair(kind, "T", "a")
    assert bench.codes(bench.signed(), bench.policy()) == []


@pytest.mark.parametrize("role", ["bundle manifest", "image manifest", "root index"])
def test_redigesting_alone_is_accepted(role: str, genuine: MemoryBundle, bench: Workbench) -> None:
    same = redigested(genuine, role, genuine.blobs[roles(genuine)[role]], bench.ours)
    assert code_of(same, policy_for(bench.ours), bench.host) == ACCEPTED


def spelled(index: bytes, how: str) -> bytes:
    """The same index of a bundle, as another tool may write it."""
    value = json.loads(index)
    if how == "other fields":
        del value["mediaType"]
        for entry in value["manifests"]:
            entry.pop("artifactType", None)
            entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    elif how == "another key order":
        value = dict(sorted(value.items(), reverse=True))
    return json.dumps(value, indent=1 if how == "spaces" else None).encode() + b"\n"


@pytest.mark.parametrize("how", ["spaces", "another key order", "other fields"])
def test_registries_tools_may_respell_index_json_and_drop_and_add_fields(
    how: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    again = genuine.with_file("index.json", spelled(genuine.files["index.json"], how))
    assert code_of(again, policy, host) == ACCEPTED


def test_hostile_text_is_escaped(bench: Workbench, tmp_path: Path) -> None:
    bench.documents.layout["imageLayoutVersion"] = "\x1b[2J\nerror[AOTC-E000]: all is well\r"
    source = open_bundle(on_disk(put_together(bench.documents), "archive", tmp_path))
    text = str(error_of(AotcError, read_root, source))
    assert "\x1b" not in text and "\r" not in text
    assert not any(line.startswith("error[AOTC-E000]") for line in text.splitlines())


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


def test_the_genuine_bundle_is_accepted_in_every_form(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    assert code_of(genuine, policy, host) == ACCEPTED
    for form in ("archive", "folder"):
        assert code_of(open_bundle(on_disk(genuine, form, tmp_path)), policy, host) == ACCEPTED


def test_a_bundle_taken_apart_and_put_together_is_accepted(
    genuine: MemoryBundle, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    again = put_together(documents)
    assert roles(again)["root index"] == roles(genuine)["root index"]
    assert code_of(again, policy, host) == ACCEPTED


@pytest.mark.parametrize("name", ["index.json", "oci-layout"])
def test_a_flipped_byte_in_the_layouts_own_files_is_refused_or_changes_nothing(
    name: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    root = verify(genuine, policy, host, time.time())
    for at in range(len(genuine.files[name])):
        bad = genuine.with_file(name, flipped(genuine.files[name], at))
        try:
            found = verify(bad, policy, host, time.time())
        except AotcError as error:
            assert error.exit_code == 5
        else:
            assert (found.root_digest, found.signers) == (root.root_digest, root.signers)


@pytest.mark.parametrize(("part", "step"), [("payload", 37), ("sig", 1)])
def test_a_flipped_bit_in_what_is_signed_or_its_signature_is_refused_though_every_digest_fits(
    part: str, step: int, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    envelope = json.loads(documents.envelopes[0])
    holder = envelope if part == "payload" else envelope["signatures"][0]
    good = base64.b64decode(holder[part])
    for at in range(0, len(good), step):
        holder[part] = base64.b64encode(flipped(good, at)).decode()
        documents.envelopes = [to_json(envelope)]
        assert code_of(put_together(documents), policy, host) == "AOTC-E303"


def test_flipped_byte_is_found(genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts) -> None:
    """Never other content, never another exception. Half of the flips hit what is not weights."""
    data = bytearray(archive(entries_of(genuine)))
    genuinely = verify(genuine, policy, host, time.time())
    chance = random.Random(20261101)
    weights_at = bytes(data).index(genuine.blobs[roles(genuine)["weights"]])
    outcomes = {"refused": 0, "identical": 0}
    for number in range(600):
        at = chance.randrange(weights_at if number % 2 else len(data))
        old = data[at]
        data[at] ^= chance.randrange(1, 256)
        try:
            members = read_members(memoryview(data), where="bundle")
            views = {
                name: memoryview(data)[m.offset : m.offset + m.size] for name, m in members.items()
            }
            found = verify(MappedBundle("bundle", views), policy, host, time.time())
        except AotcError as error:
            assert error.exit_code == 5
            outcomes["refused"] += 1
        else:
            assert found.root_digest == genuinely.root_digest
            assert found.manifest == genuinely.manifest
            assert {d: bytes(b.data) for d, b in found.blobs.items()} == {
                d: bytes(b.data) for d, b in genuinely.blobs.items()
            }
            outcomes["identical"] += 1
        data[at] = old
    assert outcomes["refused"] > 500
