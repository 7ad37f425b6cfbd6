"""A host measures only code that it can run."""

from __future__ import annotations

import msgspec
import pytest

from aotc.base.errors import CompileError
from aotc.commands.tune.tuning_service import Measure
from aotc.commands.tune.tuning_variants import unsuited
from aotc.pipeline.build_tuning import not_tuned
from aotc_runtime.schema.bundle_manifest import Target

HOST = Target(
    name="native",
    platform="cpu",
    triple="x86_64-unknown-linux-gnu",
    cpu="znver5",
    features=("avx", "avx2"),
    tuning=(),
    threads=2,
    options={},
)
NOWHERE = msgspec.structs.replace(HOST, name="nowhere", features=("amx-tile", "sse2", "xop"))
"""Intel's and AMD's own, which no processor has together."""


def test_a_host_with_all_features_is_suited() -> None:
    assert unsuited(msgspec.structs.replace(HOST, features=("avx",)), HOST) == ""


def test_missing_features_and_other_architectures_are_named() -> None:
    wanted = msgspec.structs.replace(HOST, features=("avx", "avx512f", "amx-tile"))
    assert unsuited(wanted, HOST) == "its processor lacks amx-tile, avx512f"
    arm = msgspec.structs.replace(HOST, triple="aarch64-unknown-linux-gnu")
    assert unsuited(arm, HOST) == "it is cpu x86_64"


def test_who_compiles_for_the_processor_does_not_matter_and_other_devices_are_no_processor() -> (
    None
):
    assert unsuited(msgspec.structs.replace(HOST, platform="iree"), HOST) == ""
    gpu = msgspec.structs.replace(HOST, platform="cuda", features=())
    assert unsuited(gpu, HOST) == "it is cpu x86_64"


def test_if_this_host_can_run_no_target_tuning_is_refused_naming_each() -> None:
    other = msgspec.structs.replace(NOWHERE, name="elsewhere")
    with pytest.raises(CompileError) as caught:
        not_tuned(Measure(), [NOWHERE, other])
    assert [finding.code for finding in caught.value.findings] == ["AOTC-E911"] * 2
    finding = caught.value.findings[0]
    assert finding.where == "--tune for nowhere"
    assert finding.found.startswith("not tuned: this host cannot run target nowhere: ")
    assert "amx-tile" in finding.found or "xop" in finding.found


def test_of_several_targets_those_this_host_cannot_run_stay_as_they_are() -> None:
    anywhere = msgspec.structs.replace(HOST, name="anywhere", features=("sse2",))
    assert list(not_tuned(Measure(), [NOWHERE, anywhere])) == ["nowhere"]
    assert not_tuned(None, [NOWHERE]) == {}
