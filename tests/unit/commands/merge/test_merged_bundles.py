"""`merge`: what goes together, what does not, and what is stored once."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.tampering import Documents, flipped, swap_layer
from msgspec.structs import replace

from aotc.base.errors import UsageError
from aotc.bundle.write.bundle_writer import Assembled, Form, pack
from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.commands.merge.merged_bundle import TargetPart, check_same_source, merge, target_parts_of
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.schema.bundle_manifest import BlobRef, BundleManifest, Symbolic
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.refusals import error_of

Made = Callable[..., Path]
BUILT, OTHER = "cpu-x86-64-v3", "other"


def parts(*paths: Path) -> list[TargetPart]:
    found = []
    for path in paths:
        source = open_bundle(path)
        found += target_parts_of(source, read_unverified(source)[0])
    return found


def merged(*paths: Path) -> Assembled:
    return merge(parts(*paths))


def refusal(*paths: Path) -> list[tuple[str, str]]:
    """Code and what is said to differ, of each finding."""
    error = error_of(UsageError, merged, *paths)
    assert all(str(paths[0]) in f.expected for f in error.findings)
    return [(f.code, f.where.removeprefix(f"{paths[-1]} ")) for f in error.findings]


def test_targets_keep_documents_and_share_equal_blobs(made: Made, tmp_path: Path) -> None:
    one, two = made("one", BUILT), made("two", OTHER)
    joined = merged(one, two)
    assert list(joined.manifests) == [BUILT, OTHER]
    bundle = pack(tmp_path / "joined.aotb", Form.ARCHIVE, joined)
    contents, envelopes = read_unverified(open_bundle(bundle.path))
    assert not len(envelopes), "signatures of inputs are about other roots"
    for path in (one, two):
        (name, image), *_ = read_unverified(open_bundle(path))[0].targets.items()
        assert contents.targets[name] == image
    blobs = [open_bundle(path).digests() for path in (one, two, bundle.path)]
    # of the second: an executable, two documents; of both: the root.
    assert len(blobs[2] - blobs[0]) == 4
    weights = contents.manifests[OTHER].weights["params"].blobs[0].digest
    assert weights in blobs[0] & blobs[1] & blobs[2]


def test_result_does_not_depend_on_order_or_grouping(made: Made, tmp_path: Path) -> None:
    one, two, three = made("one", BUILT), made("two", OTHER), made("three", "third")
    whole = merged(one, two, three).root.digest
    assert merged(three, one, two).root.digest == whole
    pair = pack(tmp_path / "pair.aotb", Form.LAYOUT, merged(two, three)).path
    assert merged(pair, one).root.digest == whole
    assert merged(pair, one, two).root.digest == whole, "the same target twice is one"


def test_two_different_targets_of_one_name_are_refused(made: Made) -> None:
    def another_executable(documents: Documents) -> None:
        digest = documents.profile["executable"]["digest"]
        swap_layer(documents, digest, flipped(documents.layers[digest]))

    one, two = made("one", BUILT), made("two", BUILT, another_executable)
    assert refusal(one, two) == [("AOTC-E051", BUILT)]


def predict(documents: Documents) -> dict[str, Any]:
    return documents.manifest["entry_points"]["predict"]


def other_layer(role: str) -> Callable[[Documents], None]:
    def change(documents: Documents) -> None:
        reference = (
            documents.manifest["weights"]["params"]["blobs"][0]
            if role == "weights"
            else documents.profile[role]
        )
        digest = reference["digest"]
        swap_layer(documents, digest, flipped(documents.layers[digest]))

    return change


DIFFERENT: dict[str, tuple[str, Callable[[Documents], object]]] = {
    "a name": ("name", lambda d: d.manifest.update(name="digits2")),
    "a version": ("version", lambda d: d.manifest.update(version="1.0.1")),
    "weights": ("weights params", other_layer("weights")),
    "a module": ("module predict[batch=1]", other_layer("module")),
    "accepted sizes": (
        "dimensions batch",
        lambda d: d.manifest["dimensions"]["batch"].update(maximum=65),
    ),
    "a tolerance": (
        "predict tolerance",
        lambda d: predict(d).update(tolerance={"rtol": "0.1", "atol": "1e-06"}),
    ),
    "a policy": (
        "predict out_of_profile",
        lambda d: predict(d).update(out_of_profile={"batch": {"policy": "split", "proof": []}}),
    ),
    "an entry point's name": (
        "entry_points",
        lambda d: d.manifest.update(entry_points={"infer": predict(d)}),
    ),
    "a function": ("predict function", lambda d: predict(d).update(function="other:predict")),
    "a static value": ("predict static", lambda d: predict(d).update(static={"temperature": "2"})),
}


@pytest.mark.parametrize(("what", "change"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_other_program_fails(made: Made, what: str, change: Callable[[Documents], object]) -> None:
    assert ("AOTC-E050", what) in refusal(made("one", BUILT), made("two", OTHER, change))


def test_every_difference_is_told_at_once_with_both_digests(made: Made) -> None:
    def change(documents: Documents) -> None:
        for role in ("weights", "module"):
            other_layer(role)(documents)

    one, two = made("one", BUILT), made("two", OTHER, change)
    first, second = error_of(UsageError, merged, one, two).findings
    assert "weights params" in first.where and "module predict" in second.where
    assert all("sha256:" in f.expected and "sha256:" in f.found for f in (first, second))


def of_profile(manifest: BundleManifest, **fields: Any) -> BundleManifest:
    name, entry_point = next(iter(manifest.entry_points.items()))
    first, *others = entry_point.profiles
    changed = replace(entry_point, profiles=(replace(first, **fields), *others))
    return replace(manifest, entry_points={name: changed})


def of_weights(manifest: BundleManifest, **fields: Any) -> BundleManifest:
    return replace(manifest, weights={"params": replace(manifest.weights["params"], **fields)})


def symbolic(manifest: BundleManifest) -> BundleManifest:
    ref = BlobRef(digest="sha256:" + "0" * 64, size=1)
    changed = replace(manifest.entry_points["predict"], symbolic=Symbolic(module=ref, arguments=()))
    return replace(manifest, entry_points={"predict": changed})


FACTS: dict[str, Callable[[BundleManifest], BundleManifest]] = {
    "format_version": lambda m: replace(m, format_version="9.9"),
    "dimensions": lambda m: replace(m, dimensions={}),
    "weights": lambda m: replace(m, weights={}),
    "predict symbolic": lambda m: symbolic(m),
    "weights params origin": lambda m: of_weights(m, origin="init"),
    "weights params tensors": lambda m: of_weights(m, tensors=()),
    "predict[batch=1] input_shapes": lambda m: of_profile(m, input_shapes=((7,),)),
    "predict[batch=1] output_shapes": lambda m: of_profile(m, output_shapes=((7,),)),
}
"""What no manifest can say of the same modules and blobs, as long as they are read rightly."""


@pytest.mark.parametrize("what", FACTS)
def test_program_fact_is_told_once_for_all_targets(what: str, made: Made) -> None:
    (part,) = parts(made("one", BUILT))
    other = dataclasses.replace(part, bundle="two", manifest=FACTS[what](part.manifest))
    (finding,) = check_same_source([part, other, other])
    assert (finding.code, finding.where) == ("AOTC-E050", f"two {what}")
    assert finding.expected.startswith("sha256:") == (what == "weights params tensors")


def test_proofs_of_policies_belong_to_a_target_and_may_differ(made: Made) -> None:
    trial = {
        "sizes": {"batch": 3},
        "profile": {"batch": 8},
        "fill": "",
        "max_abs": "0.0",
        "max_rel": "0.0",
        "ulp_max": 0,
        "ran": "executable",
        "inputs": "fixture",
    }

    def policy(*proof: dict[str, Any]) -> Callable[[Documents], object]:
        split = {"policy": "split", "proof": list(proof)}
        return lambda d: predict(d).update(out_of_profile={"batch": split})

    merged(made("one", BUILT, policy()), made("two", OTHER, policy(trial)))


def test_targets_need_not_have_the_same_profiles(made: Made) -> None:
    def fewer(documents: Documents) -> None:
        profile = predict(documents)["profiles"].pop()
        gone = {profile[role]["digest"] for role in ("module", "executable", "fixture")}
        kept = [la for la in documents.image["layers"] if la["digest"] not in gone]
        documents.image["layers"] = kept
        documents.layers = {d: b for d, b in documents.layers.items() if d not in gone}

    merged(made("one", BUILT), made("two", OTHER, fewer))
    merged(made("three", OTHER, fewer), made("four", BUILT))


def fixture_with(change: Callable[[dict[str, Any]], object]) -> Callable[[Documents], None]:
    """Another fixture of the first profile. change: of its arrays, by name."""

    def edit(documents: Documents) -> None:
        digest = documents.profile["fixture"]["digest"]
        data = documents.layers[digest]
        arrays = {
            name: np.frombuffer(data[info.start : info.end], info.dtype.value)
            .reshape(info.shape)
            .copy()
            for name, info in read_tensors(memoryview(data), where="x").items()
        }
        change(arrays)
        swap_layer(documents, digest, write_tensors(arrays, where="x"))

    return edit


def scaled(name: str, factor: float) -> Callable[[dict[str, Any]], object]:
    def change(arrays: dict[str, Any]) -> None:
        found = next(n for n in arrays if n.startswith(name) and arrays[n].dtype.kind == "f")
        arrays[found] *= np.float32(factor)

    return change


def test_results_within_tolerance_are_one_and_targets_keep_theirs(made: Made) -> None:
    other = made("two", OTHER, fixture_with(scaled("outputs/", 1 + 1e-6)))
    manifests = merged(made("one", BUILT), other).manifests.values()
    entry_points = [manifest.entry_points["predict"] for manifest in manifests]
    fixtures = [entry_point.profiles[0].fixture for entry_point in entry_points]
    assert fixtures[0] != fixtures[1]


FIXTURES: dict[str, Callable[[dict[str, Any]], object]] = {
    "results beyond the tolerance": scaled("outputs/", 1.1),
    "inputs in the last bit": scaled("inputs/", 1 + 2e-7),
    "an output less": lambda arrays: arrays.pop(next(n for n in arrays if n.startswith("out"))),
    "another dtype": lambda arrays: arrays.update(
        {n: a.astype(np.float64) for n, a in arrays.items() if n.startswith("inputs/")}
    ),
}


@pytest.mark.parametrize("change", FIXTURES.values(), ids=FIXTURES.keys())
def test_other_fixtures_are_refused(made: Made, change: Callable[[dict[str, Any]], object]) -> None:
    one, two = made("one", BUILT), made("two", OTHER, fixture_with(change))
    assert refusal(one, two) == [("AOTC-E050", "fixture predict[batch=1]")]
