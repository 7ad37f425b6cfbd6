"""Manifests that contradict themselves, rightly signed: each is told by the rule that it breaks."""

import msgspec
import pytest

from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.verification.manifest_consistency import check_consistency, check_shapes

from .generator.contradictions import SPLIT, contradict, extra_input
from .tampering import Documents

RULES = {
    "a dimension that the bundle has not": "dimensions of the bundle",
    "a dimension whose name is an expression": "dimensions of the bundle",
    "an axis that is no expression": "shapes of sizes and expressions over its dimensions",
    "an axis over another dimension": "shapes of sizes and expressions over its dimensions",
    "an axis of ten thousand factors": "shapes of sizes and expressions over its dimensions",
    "a relation that is none": "relations between its dimensions",
    "a relation over another dimension": "relations between its dimensions",
    "a profile without a size": "sizes of batch",
    "a profile of another dimension": "sizes of batch",
    "a profile of other shapes": "['batch', 64] at its sizes",
    "outputs of other shapes": "['batch'] at its sizes",
    "outputs with another number of axes": "['batch'] at its sizes",
    "a policy for another dimension": "policies for its dimensions",
    "a policy and an axis that nobody knows": "known shapes for its policies",
    "a policy for a dimension that no caller tells": "an input axis for each dimension",
    "profiles that differ in a mask": "profiles with different shapes of inputs",
    "a fill of nothing": "a fill value of an input",
    "a fill that is no number": "a fill value of an input",
    "a mask that is no parameter": "a mask of booleans with an axis batch",
    "a mask of integers": "a mask of booleans with an axis batch",
    "a mask without the dimension": "a mask of booleans with an axis batch",
    "a mask that is donated": "a mask of booleans with an axis batch",
    "a mask that is a list": "a mask of booleans with an axis batch",
    "a length that is no parameter": "an integer scalar as length",
    "a length of floats": "an integer scalar as length",
    "a length with an axis": "an integer scalar as length",
    "a mask that is a length": "a parameter for each length",
    "two dimensions with one length": "a parameter for each length",
    "two dimensions with two fills for one array": "one fill for image",
    "a split along two axes": "the split dimension on one axis",
    "a split of an axis that is a multiple": "the split dimension on one axis",
    "a policy that compiles nothing": "a symbolic module",
    "a symbolic module for nothing": "no symbolic module",
}


@pytest.mark.parametrize("name", RULES)
def test_each_is_told_by_its_rule(name: str, documents: Documents) -> None:
    contradict(documents, name)
    manifest = msgspec.convert(documents.manifest, BundleManifest)
    entry_point = manifest.entry_points["predict"]
    findings = list(check_shapes(entry_point, manifest.dimensions, "here"))
    assert {finding.code for finding in findings} == {"AOTC-E118"}
    assert any(finding.expected.startswith(RULES[name]) for finding in findings), findings
    assert all(len(finding.found) <= 200 for finding in findings)


def test_the_manifest_they_are_made_of_contradicts_nothing(documents: Documents) -> None:
    manifest = msgspec.convert(documents.manifest, BundleManifest)
    assert not [*check_shapes(manifest.entry_points["predict"], manifest.dimensions, "here")]


def test_a_split_leaves_arrays_alone_that_do_not_have_the_dimension(documents: Documents) -> None:
    entry_point = documents.manifest["entry_points"]["predict"]
    extra_input(entry_point, documents.profile, "int32", [3])
    entry_point["out_of_profile"] = {"batch": SPLIT}
    manifest = msgspec.convert(documents.manifest, BundleManifest)
    assert not [*check_shapes(manifest.entry_points["predict"], manifest.dimensions, "here")]


@pytest.mark.parametrize(
    "name",
    [
        "keys that are no uint32",
        "keys whose shape is no shape of data",
        "input keys of another shape",
        "output keys of another shape",
    ],
)
def test_keys_are_refused_by_the_rule_on_keys(name: str, documents: Documents) -> None:
    contradict(documents, name)
    findings = check_consistency(msgspec.convert(documents.manifest, BundleManifest), "here")
    assert any(finding.expected.startswith("key data: uint32") for finding in findings)
