"""A bundle for GPUs: what its host has is asked only for it, and before anything is loaded."""

import time

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.schema.host_facts import Accelerator, HostFacts
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.verify_bundle import accept_bundle

from .tampering import Documents, MemoryBundle, host_with, policy_for, second_target, signed

pytestmark = pytest.mark.xla

NEEDED = {
    "kinds": ["NVIDIA H200"],
    "memory_bytes": 1000,
    "plugin": "jax-cuda13-pjrt",
    "accepts_plugin": ["0.12.0.1"],
    "compute_capability": "9.0",
    "driver": "13.0",
}
DEVICE = {
    "family": "cuda",
    "description": "NVIDIA H200 141GB HBM3e",
    "compute_capability": "9.0",
    "kinds": ["NVIDIA H200"],
}
GPU = Accelerator(
    platform="cuda",
    devices=1,
    kinds=("NVIDIA H200",),
    memory_bytes=1000,
    plugin="0.12.0.1",
    compute_capability="9.0",
    driver="13.1",
)


@pytest.fixture
def both(documents: Documents, ours: LocalSigner) -> MemoryBundle:
    """The genuine target, and one like it that claims to be for a GPU."""
    second_target(documents, "gpu")
    gpu = documents.targets[-1].manifest
    gpu["target"] |= {"platform": "cuda", "device": DEVICE}
    gpu["requires"] |= {"platform": "cuda", "isa": [], "device": NEEDED}
    return signed(documents, ours)


def test_accelerator_is_preferred(both: MemoryBundle, ours: LocalSigner, host: HostFacts) -> None:
    facts = host_with(host, accelerators=(GPU,))
    verdict = examine(both, policy_for(ours), facts, time.time())
    assert (verdict.target, verdict.findings) == ("gpu", ())


@pytest.mark.parametrize("found", [(), (Accelerator(platform="cuda", devices=0),)])
def test_without_one_the_processor_is_and_the_accelerator_says_why_not(
    found: tuple[Accelerator, ...], both: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    facts = host_with(host, accelerators=found)
    verdict = examine(both, policy_for(ours), facts, time.time())
    assert verdict.findings == () and verdict.target != "gpu"
    wanted = examine(both, policy_for(ours), facts, time.time(), "gpu")
    assert [finding.code for finding in wanted.findings] == ["AOTC-E501", "AOTC-E405"]


def test_only_a_bundle_or_a_target_for_accelerators_wants_to_know_of_them(
    genuine: MemoryBundle, policy: TrustPolicy, both: MemoryBundle, ours: LocalSigner
) -> None:
    with accept_bundle(genuine, policy, time.time()) as accepted:
        assert accepted.facts_for(None).platforms == {"xla": ()}
    with accept_bundle(both, policy_for(ours), time.time()) as accepted:
        assert accepted.facts_for(None).platforms == {"xla": ("cuda",)}
        assert accepted.facts_for("gpu").platforms == {"xla": ("cuda",)}
        assert accepted.facts_for("no such target").platforms == {}
