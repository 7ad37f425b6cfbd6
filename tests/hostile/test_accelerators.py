"""A bundle for GPUs: what its host has is asked only for it, and before anything is loaded."""

from __future__ import annotations

import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime.schema.facts import Accelerator, HostFacts
from aotc_runtime.verification.verify import examine

from .tampering import Documents, MemoryBundle, policy_for, second_target, signed

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


def test_the_accelerator_is_taken_where_there_is_one(
    both: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    verdict = examine(both, policy_for(ours), host, accelerators=lambda _: GPU)
    assert (verdict.target, verdict.findings) == ("gpu", ())


def test_without_one_the_processor_is_and_the_accelerator_says_why_not(
    both: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    for ask in (lambda _: None, lambda _: Accelerator(platform="cuda", devices=0)):
        verdict = examine(both, policy_for(ours), host, accelerators=ask)
        assert verdict.findings == () and verdict.target != "gpu"
        wanted = examine(both, policy_for(ours), host, accelerators=ask, target="gpu")
        assert [finding.code for finding in wanted.findings] == ["AOTC-E501", "AOTC-E403"]


def test_nobody_is_asked_for_a_bundle_of_processors_or_when_the_facts_say_it(
    genuine: MemoryBundle,
    both: MemoryBundle,
    ours: LocalSigner,
    host: HostFacts,
) -> None:
    asked: list[str] = []

    def ask(platform: str) -> Accelerator | None:
        asked.append(platform)
        return None

    examine(genuine, policy_for(ours), host, accelerators=ask)
    first = examine(both, policy_for(ours), host).target
    examine(both, policy_for(ours), host, accelerators=ask, target=first)
    assert asked == []
    examine(both, policy_for(ours), host, accelerators=ask)
    assert asked == ["cuda"]
