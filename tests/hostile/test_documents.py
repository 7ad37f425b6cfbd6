"""Unusual documents that are good, and what a bad one says in the words of its refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root

from .archives import on_disk
from .tampering import (
    ACCEPTED,
    Documents,
    Target,
    code_of,
    policy_for,
    put_together,
    signed,
    to_json,
)


def test_a_bundle_may_have_several_targets(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    second = json.loads(to_json([documents.image, documents.manifest]))
    second[1]["target"]["name"] = "other"
    documents.targets.append(Target(*second))
    documents.root["manifests"].append(dict(documents.root["manifests"][0]))
    assert code_of(signed(documents, ours), policy_for(ours), host) == ACCEPTED


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
