"""One changed byte, anywhere: the bundle is refused, or reads exactly as before."""

import base64
import json
import random
import time
from pathlib import Path

import pytest

from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.tar_archive import read_members
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import MappedBundle, open_bundle
from aotc_runtime.verification.bundle_examination import verify

from .archives import archive, entries_of, on_disk
from .tampering import (
    ACCEPTED,
    Documents,
    MemoryBundle,
    code_of,
    flipped,
    put_together,
    roles,
    to_json,
)


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
