"""Everything that a manifest says is a fact, of the program or of its target, and is compared."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aotc.bundle.read.bundle_facts import Changed, Part, compare, program_texts
from aotc.bundle.read.bundle_review import ReviewedTarget, review
from aotc_runtime.schema.bundle_manifest import BundleManifest, EntryPoint, ProfileRecord, WeightSet
from aotc_runtime.system.bundle_files import open_bundle

GOLDEN = Path(__file__).parents[3] / "golden"
V3 = "cpu-x86-64-v3"
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def target() -> ReviewedTarget:
    return review(open_bundle(GOLDEN / "sizes.aotb"), None, datetime.now(UTC)).targets[V3]


def changed(target: ReviewedTarget, manifest: BundleManifest) -> list[Changed]:
    return list(compare({V3: target}, {V3: ReviewedTarget(manifest, target.evidence)}))


def with_policies(manifest: BundleManifest, policies: dict[str, Any]) -> BundleManifest:
    entry_point = replace(manifest.entry_points["attend"], out_of_profile=policies)
    return replace(manifest, entry_points={**manifest.entry_points, "attend": entry_point})


def test_a_bundle_differs_in_nothing_from_itself(target: ReviewedTarget) -> None:
    assert changed(target, target.manifest) == []


@pytest.mark.parametrize(
    ("part", "owner", "kind", "left_out"),
    [
        (Part.WEIGHTS, "table", WeightSet, set()),
        (Part.ENTRY_POINT, "double", EntryPoint, set()),
        # Which one it is, what follows from its bytes, and what is among its numbers.
        (
            Part.EXECUTABLE,
            "attend[batch=1,seq=4]",
            ProfileRecord,
            {"sizes", "arguments", "custom_call_targets", "memory", "cost", "thunks"},
        ),
    ],
)
def test_every_field_is_a_fact_that_another_bundle_may_lack(
    target: ReviewedTarget, part: Part, owner: str, kind: Any, left_out: set[str]
) -> None:
    bare = replace(target.manifest, dimensions={}, weights={}, entry_points={})
    found = list(compare({V3: target}, {V3: ReviewedTarget(bare, None)}))
    of_owner = [each for each in found if (each.fact.part, each.fact.owner) == (part, owner)]
    assert {*kind.__struct_fields__} - left_out <= {each.fact.field for each in of_owner}
    assert not any(each.in_both for each in of_owner)
    names = {each.fact.field for each in found if each.in_both}
    assert names == {"dimensions", "weights", "entry_points"}


def test_what_a_target_proved_of_a_policy_is_its_own(target: ReviewedTarget) -> None:
    policies = target.manifest.entry_points["attend"].out_of_profile
    unproven = {name: replace(policy, proof=()) for name, policy in policies.items()}
    (found,) = changed(target, with_policies(target.manifest, unproven))
    assert found.fact.field == "proofs" and not found.fact.of_program


def test_facts_of_the_program_have_names_and_texts(target: ReviewedTarget) -> None:
    texts = dict(program_texts(target.manifest))
    assert texts["name"] == "sizes" and texts["weights"] == '["table"]'
    assert texts["attend symbolic"] == "none" != texts["double symbolic"]
    profile = target.manifest.entry_points["attend"].profiles[0]
    assert texts["module attend[batch=1,seq=4]"] == profile.module.digest
    assert not any("executable" in name or "parity" in name for name in texts)
    elsewhere = replace(target.manifest, target=replace(target.manifest.target, platform="tpu"))
    assert "module on tpu attend[batch=1,seq=4]" in dict(program_texts(elsewhere))
