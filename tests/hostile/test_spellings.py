"""What may be spelled otherwise, and up to which size; what may not is in `generator`."""

from __future__ import annotations

import json

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_contents import read_root

from .generator.spellings import redigested
from .tampering import (
    ACCEPTED,
    MemoryBundle,
    code_of,
    policy_for,
    roles,
    to_json,
)


def respelled(data: bytes, how: str) -> bytes:
    """The same value, spelled otherwise."""
    value = json.loads(data)
    return {
        "spaces": lambda: json.dumps(value, sort_keys=True).encode(),
        "a newline at the end": lambda: data + b"\n",
        "another key order": lambda: json.dumps(dict(sorted(value.items(), reverse=True))).encode(),
    }[how]()


CHAIN = pytest.mark.parametrize("role", ["bundle manifest", "image manifest", "root index"])


@CHAIN
def test_redigesting_alone_is_accepted(
    role: str, genuine: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    same = redigested(genuine, role, genuine.blobs[roles(genuine)[role]], ours)
    assert code_of(same, policy_for(ours), host) == ACCEPTED


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
        entry.pop("artifactType", None)
        entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    assert code_of(genuine.with_file("index.json", to_json(index)), policy, host) == ACCEPTED


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
