"""Attacks on a bundle's structure and compatibility, and the code that refuses each."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from aotc_runtime.base import limits
from aotc_runtime.base.errors import raise_if
from aotc_runtime.schema.bundle_manifest import BundleManifest, Symbolic
from aotc_runtime.schema.host_facts import NOT_INSTALLED
from aotc_runtime.verification import (
    bundle_contents,
    bundle_examination,
    host_compatibility,
    host_findings,
    manifest_consistency,
    verify_bundle,
)

from .refused_attacks import Arms, Refused, codes_in, outcome
from .tampering import (
    ACCEPTED,
    Target,
    code_of,
    digest_of,
    flipped,
    host_with,
    policy_for,
    put_together,
    roles,
    to_json,
    two_targets,
)

LAYER = "application/vnd.aotc.executable.v1"


def respelled_index(arms: Arms, change: Any) -> str:
    index = json.loads(arms.genuine.files["index.json"])
    change(index["manifests"])
    return code_of(arms.genuine.with_file("index.json", to_json(index)), arms.policy, arms.host)


def another_layout(arms: Arms) -> str:
    arms.documents.layout["imageLayoutVersion"] = "2.0.0"
    return arms.signed()


def an_entry_of_another_kind(arms: Arms) -> str:
    entry = {"mediaType": "x", "digest": "sha256:" + "0" * 64, "size": 0}
    return respelled_index(arms, lambda entries: entries.append(entry))


def countless_attestations(arms: Arms) -> str:
    return respelled_index(arms, lambda e: e.extend([e[1]] * limits.ATTESTATIONS_MAX))


def an_attestation_twice(arms: Arms) -> str:
    return respelled_index(arms, lambda e: e.append(e[1]))


def no_index(arms: Arms) -> str:
    return code_of(arms.genuine.without("index.json"), arms.policy, arms.host)


def a_huge_index(arms: Arms) -> str:
    data = arms.genuine.files["index.json"] + b" " * limits.INDEX_BYTES_MAX
    return code_of(arms.genuine.with_file("index.json", data), arms.policy, arms.host)


def a_missing_layer(arms: Arms) -> str:
    return code_of(arms.genuine.without(roles(arms.genuine)["weights"]), arms.policy, arms.host)


def a_wrong_size(arms: Arms) -> str:
    reference = arms.documents.profile["executable"]
    for layer in arms.documents.image["layers"]:
        layer["size"] += layer["digest"] == reference["digest"]
    reference["size"] += 1
    return arms.signed()


def attested(arms: Arms, change: Any, *blobs: bytes) -> str:
    """The outcome with another document around the envelope."""
    old = roles(arms.genuine)["attestation"]
    document = json.loads(arms.genuine.blobs[old])
    for data in blobs:
        document["config"] |= {"digest": digest_of(data), "size": len(data)}
    change(document)
    new = to_json(document)
    bundle = arms.genuine.without(old).with_blob(digest_of(new), new)
    for data in blobs:
        bundle = bundle.without(roles(arms.genuine)["empty config"]).with_blob(
            digest_of(data), data
        )
    index = json.loads(bundle.files["index.json"])
    index["manifests"][1] |= {"digest": digest_of(new), "size": len(new)}
    return code_of(bundle.with_file("index.json", to_json(index)), arms.policy, arms.host)


def a_large_config(arms: Arms) -> str:
    return attested(arms, lambda document: None, b"{ }")


def an_envelope_twice(arms: Arms) -> str:
    """Under two attestations, which another tool may have annotated."""
    document = json.loads(arms.genuine.blobs[roles(arms.genuine)["attestation"]])
    data = to_json({**document, "annotations": {"number": "2"}})
    index = json.loads(arms.genuine.files["index.json"])
    more = {**index["manifests"][1], "digest": digest_of(data), "size": len(data)}
    index["manifests"].append(more)
    bundle = arms.genuine.with_blob(digest_of(data), data)
    return code_of(bundle.with_file("index.json", to_json(index)), arms.policy, arms.host)


def two_large_envelopes(arms: Arms) -> str:
    good = arms.documents.envelopes[0]
    large = [good.ljust(limits.ATTESTATIONS_BYTES_MAX // 2 + more) for more in range(2)]
    arms.documents.envelopes = large
    return code_of(put_together(arms.documents), arms.policy, arms.host)


def no_subject(arms: Arms) -> str:
    return attested(arms, lambda document: document.pop("subject"))


def two_layers(arms: Arms) -> str:
    return attested(arms, lambda document: document["layers"].extend(document["layers"]))


def another_root(arms: Arms) -> str:
    digest = roles(arms.genuine)["root index"]
    data = arms.genuine.blobs[digest].replace(b"x86-64-v3", b"x86-64-v4")
    return code_of(arms.genuine.with_blob(digest, data), arms.policy, arms.host)


def another_executable(arms: Arms) -> str:
    digest = roles(arms.genuine)["executable"]
    bad = arms.genuine.with_blob(digest, flipped(arms.genuine.blobs[digest]))
    return code_of(bad, arms.policy, arms.host)


def other_weights(arms: Arms) -> str:
    digest = roles(arms.genuine)["weights"]
    bad = arms.genuine.with_blob(digest, flipped(arms.genuine.blobs[digest]))
    return code_of(bad, arms.policy, arms.host)


def an_artifact_of_a_target(arms: Arms) -> str:
    arms.documents.root["manifests"][0]["artifactType"] = "application/vnd.aotc.bundle.v1"
    return arms.signed()


def signed_as_it_is(arms: Arms) -> str:
    return arms.signed()


def another_artifact(arms: Arms) -> str:
    arms.documents.root["artifactType"] = "application/x"
    return arms.signed()


def second_target(arms: Arms, **change: Any) -> str:
    documents = arms.documents
    image, manifest = json.loads(to_json([documents.image, documents.manifest]))
    manifest |= change
    documents.targets.append(Target(image, manifest))
    documents.root["manifests"].append(dict(documents.root["manifests"][0]))
    return arms.signed()


def a_target_twice(arms: Arms) -> str:
    return second_target(arms)


def two_versions(arms: Arms) -> str:
    target = {**arms.documents.manifest["target"], "name": "other"}
    return second_target(arms, target=target, version="2.0.0")


def sparse(arms: Arms, change: Any = lambda bundle, first, second: bundle) -> str:
    """A good bundle of two targets without the second one. change: what else."""
    bundle, first, second = two_targets(arms.documents, arms.ours)
    for digest in second.values():
        bundle = bundle.without(digest)
    return code_of(change(bundle, first, second), policy_for(arms.ours), arms.host)


def a_target_left_out(arms: Arms) -> str:
    return sparse(arms)


def a_target_left_out_by_half(arms: Arms) -> str:
    """Its documents are gone, and its executable is still there."""
    return sparse(
        arms,
        lambda bundle, _, second: bundle.with_blob(
            second["executable"], arms.documents.layers[second["executable"]]
        ),
    )


def no_target_at_all(arms: Arms) -> str:
    return sparse(arms, lambda bundle, first, _: bundle.without(first["image"]))


def a_layer_unmentioned(arms: Arms) -> str:
    reference = {"mediaType": LAYER, "digest": digest_of(b"x"), "size": 1}
    arms.documents.image["layers"].append(reference)
    arms.documents.image["layers"].sort(key=lambda layer: layer["digest"])
    arms.documents.layers[digest_of(b"x")] = b"x"
    return arms.signed()


def a_layer_twice(arms: Arms) -> str:
    arms.documents.image["layers"].insert(0, arms.documents.image["layers"][0])
    return arms.signed()


def a_deep_tree(arms: Arms) -> str:
    tree: dict[str, Any] = {"node": "leaf", "index": 0}
    for _ in range(limits.TREE_DEPTH_MAX):
        tree = {"node": "list", "items": [tree]}
    arms.documents.manifest["entry_points"]["predict"]["parameters"][0]["tree"] = tree
    return arms.signed()


def a_blob_unreferenced(arms: Arms) -> str:
    arms.documents.surplus.append(b"x")
    return arms.signed()


def a_later_format(arms: Arms) -> str:
    arms.documents.manifest["format_version"] = "1.9"
    return arms.signed()


def an_unknown_target(arms: Arms) -> Any:
    return bundle_examination.verify(arms.genuine, arms.policy, arms.host, time.time(), "other")


def on_host(**change: Any) -> Any:
    """The genuine bundle on another host."""

    def attack(arms: Arms) -> str:
        return code_of(arms.genuine, arms.policy, host_with(arms.host, **change))

    return attack


def requiring(**change: Any) -> Any:
    """A bundle that needs something else."""

    def attack(arms: Arms) -> str:
        arms.documents.manifest["requires"] |= change
        return arms.signed()

    return attack


VERIFY = [
    Refused(another_layout, "AOTC-E112"),
    Refused(an_entry_of_another_kind, "AOTC-E113"),
    Refused(countless_attestations, "AOTC-E111"),
    Refused(an_attestation_twice, "AOTC-E113"),
    Refused(no_index, "AOTC-E110"),
    Refused(a_huge_index, "AOTC-E111"),
    Refused(a_missing_layer, "AOTC-E202"),
    Refused(a_wrong_size, "AOTC-E203"),
    Refused(a_large_config, "AOTC-E111"),
    Refused(another_root, "AOTC-E201"),
    Refused(no_subject, "AOTC-E114"),
    Refused(two_layers, "AOTC-E114"),
    Refused(an_envelope_twice, "AOTC-E114"),
    Refused(two_large_envelopes, "AOTC-E111"),
    Refused(another_artifact, "AOTC-E113"),
    Refused(an_artifact_of_a_target, "AOTC-E113"),
    Refused(signed_as_it_is, ACCEPTED),
    Refused(a_target_twice, "AOTC-E116"),
    Refused(two_versions, "AOTC-E116"),
    Refused(a_layer_unmentioned, "AOTC-E205"),
    Refused(a_layer_twice, "AOTC-E205"),
    Refused(a_deep_tree, "AOTC-E118"),
    Refused(a_blob_unreferenced, "AOTC-E204"),
    Refused(a_target_left_out_by_half, "AOTC-E204"),
    Refused(a_later_format, "AOTC-E115"),
    Refused(another_executable, "AOTC-E201"),
    Refused(other_weights, "AOTC-E201"),
    Refused(no_target_at_all, "AOTC-E202"),
    Refused(a_target_left_out, ACCEPTED),
    Refused(an_unknown_target, "AOTC-E505"),
    Refused(on_host(isa=frozenset()), "AOTC-E502"),
]


def needing_lapack(arms: Arms) -> None:
    manifest = msgspec.convert(arms.documents.manifest, BundleManifest)
    requires = msgspec.structs.replace(
        manifest.requires, custom_call_targets=("lapack_sgeqrf_ffi",)
    )
    host = msgspec.structs.replace(arms.host, libraries=())
    raise_if(
        host_compatibility.check_host(msgspec.structs.replace(manifest, requires=requires), host)
    )


def a_newer_module(arms: Arms) -> None:
    manifest = msgspec.convert(arms.documents.manifest, BundleManifest)
    predict = manifest.entry_points["predict"]
    module = Symbolic(predict.profiles[0].module, (), "9.0.0")
    entry_points = {"predict": msgspec.structs.replace(predict, symbolic=module)}
    host = msgspec.structs.replace(arms.host, jaxlib="0.12.0")
    manifest = msgspec.structs.replace(manifest, accepts_jaxlib=("0.12.0",))
    raise_if(
        host_compatibility.check_host(
            msgspec.structs.replace(manifest, entry_points=entry_points), host
        )
    )


GPUS = on_host(platform="cuda")

COMPATIBILITY = [
    Refused(on_host(bundle_format="0.9"), "AOTC-E402"),
    Refused(on_host(libc="glibc 2.17"), "AOTC-E507"),
    Refused(on_host(os="darwin"), "AOTC-E501"),
    Refused(on_host(jaxlib="0.11.2"), "AOTC-E401"),
    Refused(on_host(jaxlib=NOT_INSTALLED), "AOTC-E405"),
    Refused(GPUS, "AOTC-E501"),
    Refused(on_host(architecture="aarch64"), "AOTC-E501"),
    Refused(requiring(isa=["amx-tile"]), "AOTC-E502"),
    Refused(requiring(devices=2), "AOTC-E503"),
    Refused(
        requiring(custom_call_targets=["TopK", "lapack_sgeqrf_ffi", "xla_python_cpu_callback"]),
        "AOTC-E504",
    ),
    Refused(needing_lapack, "AOTC-E510"),
    Refused(a_newer_module, "AOTC-E404"),
    Refused(on_host(memory_bytes=321_351), "AOTC-E551"),
]


ATTACKS = [*VERIFY, *COMPATIBILITY]


OF_XLA = ("AOTC-E401", "AOTC-E405", "AOTC-E507", "AOTC-E510")
"""Refused about jaxlib, and what it needs of a host."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.label, marks=[pytest.mark.xla] if of_xla else [])
        for case in ATTACKS
        for of_xla in [case.code in OF_XLA or case.attack is GPUS]
    ],
)
def test_an_attack_is_refused(case: Refused, arms: Arms) -> None:
    assert outcome(case.attack, arms) == case.code


def test_every_code_of_the_verification_has_its_check_here() -> None:
    modules = (
        verify_bundle,
        bundle_contents,
        host_compatibility,
        host_findings,
        manifest_consistency,
    )
    # tests/unit/runtime/verification/test_compatibility.py has those of accelerators.
    elsewhere = {f"AOTC-E{number}" for number in (403, 508, 509, 554)}
    assert codes_in(*modules) - elsewhere == {case.code for case in ATTACKS} - {ACCEPTED}
