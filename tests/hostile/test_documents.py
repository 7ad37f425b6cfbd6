"""Contents and spellings that documents may have; what they may not have is in `generator`."""

import json
from pathlib import Path

import pytest

from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root

from .archives import on_disk
from .generator.contradictions import LEAF, pair
from .generator.spellings import redigested
from .tampering import (
    ACCEPTED,
    MemoryBundle,
    Target,
    code_of,
    policy_for,
    put_together,
    roles,
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
    with pytest.raises(AotcError) as refused:
        read_root(source)
    text = str(refused.value)
    assert "\x1b" not in text and "\r" not in text
    assert not any(line.startswith("error[AOTC-E000]") for line in text.splitlines())
