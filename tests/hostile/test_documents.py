"""Documents that are well spelled and say what no bundle says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime.errors import AotcError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.verify import read_root

from .archives import on_disk
from .tampering import (
    ACCEPTED,
    Documents,
    MemoryBundle,
    Target,
    code_of,
    policy_for,
    put_together,
    signed,
    to_json,
)


def entry(media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": "sha256:" + "0" * 64, "size": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda manifests: manifests[1:],
        lambda manifests: [manifests[0], *manifests],
        lambda manifests: [*manifests, entry("application/octet-stream")],
        lambda manifests: [],
    ],
    ids=["no root", "two roots", "another kind", "nothing"],
)
def test_an_index_json_without_exactly_one_root_is_refused(
    change: Any, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    index = json.loads(genuine.files["index.json"])
    index["manifests"] = change(index["manifests"])
    bad = genuine.with_file("index.json", to_json(index))
    assert code_of(bad, policy, host) == "AOTC-E113"


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "sha512:" + "0" * 128, "", "x"])
def test_a_digest_that_is_none_is_refused(
    digest: str, genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    index = json.loads(genuine.files["index.json"])
    index["manifests"][0]["digest"] = digest
    bad = genuine.with_file("index.json", to_json(index))
    assert code_of(bad, policy, host) == "AOTC-E106"


@pytest.mark.parametrize("version", ["1.1.0", "2.0.0", ""])
def test_another_layout_version_is_refused(
    version: str, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    documents.layout["imageLayoutVersion"] = version
    assert code_of(put_together(documents), policy, host) == "AOTC-E112"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", ACCEPTED),
        ("1.1", "AOTC-E115"),
        ("2.0", "AOTC-E115"),
        ("0.9", "AOTC-E115"),
        ("1", "AOTC-E115"),
        ("1.", "AOTC-E115"),
        ("1.0.0", "AOTC-E115"),
        ("1.²", "AOTC-E115"),
        ("1.٠", "AOTC-E115"),
        ("1.00", "AOTC-E115"),
        ("1.-1", "AOTC-E115"),
        ("", "AOTC-E115"),
    ],
)
def test_another_format_version_is_refused(
    version: str, expected: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.manifest["format_version"] = version
    assert code_of(signed(documents, ours), policy_for(ours), host) == expected


def test_a_later_format_is_called_that_and_not_malformed(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.manifest.update(format_version="1.1", a_new_field=1)
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E115"


@pytest.mark.parametrize("change", [{"artifactType": "application/x"}, {"manifests": []}])
def test_a_root_that_is_no_bundle_is_refused(
    change: dict[str, Any], documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    documents.root |= change
    if "manifests" in change:
        documents.targets, documents.layers = [], {}
    assert code_of(signed(documents, ours), policy_for(ours), host) == "AOTC-E113"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda m: m["target"].update(name="other"), ACCEPTED),
        (lambda m: None, "AOTC-E116"),
        (lambda m: (m["target"].update(name="other"), m.update(version="2.0.0")), "AOTC-E116"),
        (lambda m: (m["target"].update(name="other"), m.update(name="vision")), "AOTC-E116"),
    ],
    ids=["two targets", "one twice", "two versions", "two names"],
)
def test_targets_of_one_bundle_are_distinct_and_agree_on_its_identity(
    change: Any, expected: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    second = json.loads(to_json([documents.image, documents.manifest]))
    change(second[1])
    documents.targets.append(Target(*second))
    documents.root["manifests"].append(dict(documents.root["manifests"][0]))
    assert code_of(signed(documents, ours), policy_for(ours), host) == expected


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_an_envelope_that_is_none_is_refused(
    data: bytes, documents: Documents, policy: TrustPolicy, host: HostFacts
) -> None:
    documents.envelopes = [data]
    assert code_of(put_together(documents), policy, host) == "AOTC-E106"


def test_what_a_hostile_file_says_reaches_the_terminal_escaped(
    documents: Documents, policy: TrustPolicy, host: HostFacts, tmp_path: Path
) -> None:
    documents.layout["imageLayoutVersion"] = "\x1b[2J\nAOTC-E000 all is well\r"
    source = open_bundle(on_disk(put_together(documents), "archive", tmp_path))
    with pytest.raises(AotcError) as refused:
        read_root(source)
    text = str(refused.value)
    assert "\x1b" not in text and "\r" not in text
    assert not any(line.startswith("AOTC-E000") for line in text.splitlines())
