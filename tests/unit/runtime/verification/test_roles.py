"""Each blob of a bundle in words: what a policy revokes is looked up among these."""

import copy
from typing import Any

import msgspec

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats.oci_layout import ImageManifest
from aotc_runtime.verification.policy_rules import roles_by_digest

from ..samples import DOCUMENT, PROFILE, manifest


def digest(digit: int) -> str:
    return "sha256:" + str(digit) * 64


def test_every_blob_that_is_reached_has_a_role_a_symbolic_module_too() -> None:
    refs = {name: {"digest": digest(at), "size": 1} for at, name in enumerate(KINDS, start=1)}
    entry_point: dict[str, Any] = copy.deepcopy(DOCUMENT["entry_points"]["predict"])
    parts = {kind: refs[kind] for kind in ("module", "executable", "fixture")}
    entry_point["profiles"] = [{**PROFILE, **parts}]
    entry_point["symbolic"] = {"module": refs["symbolic"], "arguments": []}
    weights = {"origin": "bound", "tensors": [], "blobs": [refs["weights"]]}
    described = manifest(
        entry_points={"predict": entry_point},
        weights={"params": weights},
        evidence=refs["evidence"],
    )
    image = msgspec.convert(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.aotc.bundle.v1",
            "config": {
                "mediaType": "application/vnd.aotc.manifest.v1+json",
                "digest": digest(7),
                "size": 1,
            },
            "layers": [],
        },
        ImageManifest,
    )
    found = roles_by_digest(digest(8), {"cpu": image}, {"cpu": described}, [digest(9)])
    assert found == {
        digest(8): "root index",
        digest(9): "attestation",
        sha256(canonical_json.encode(image)): "image manifest of cpu",
        digest(6): "evidence of cpu",
        digest(7): "bundle manifest of cpu",
        digest(1): "weights params of cpu",
        digest(2): "module predict[batch=2] of cpu",
        digest(3): "fixture predict[batch=2] of cpu",
        digest(4): "executable predict[batch=2] of cpu",
        digest(5): "symbolic module predict of cpu",
    }


KINDS = ("weights", "module", "fixture", "executable", "symbolic", "evidence")
