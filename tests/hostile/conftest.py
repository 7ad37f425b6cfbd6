"""A genuine bundle in memory, a host that can run it, and signers of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.signing.signer import LocalSigner
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.verification.trust import read_policy

from .tampering import (
    Documents,
    MemoryBundle,
    host_for,
    in_memory,
    take_apart,
    with_one_attestation,
)
from .weakening import Arms


@pytest.fixture(scope="session")
def genuine(digits_bundle: tuple[Path, Path]) -> MemoryBundle:
    return with_one_attestation(in_memory(digits_bundle[0]))


@pytest.fixture(scope="session")
def policy(digits_bundle: tuple[Path, Path]) -> TrustPolicy:
    return read_policy(digits_bundle[1])


@pytest.fixture(scope="session")
def host(genuine: MemoryBundle) -> HostFacts:
    """A host made to measure, so that these tests mean the same everywhere."""
    return host_for(genuine)


@pytest.fixture
def documents(genuine: MemoryBundle) -> Documents:
    return take_apart(genuine)


@pytest.fixture(scope="session")
def ours() -> LocalSigner:
    """A signer that tests can sign with; policies made by `policy_for` trust it."""
    return LocalSigner.ephemeral()


@pytest.fixture(scope="session")
def stranger() -> LocalSigner:
    return LocalSigner.ephemeral()


@pytest.fixture
def arms(
    genuine: MemoryBundle,
    documents: Documents,
    policy: TrustPolicy,
    ours: LocalSigner,
    stranger: LocalSigner,
    host: HostFacts,
    tmp_path: Path,
) -> Arms:
    return Arms(genuine, documents, policy, ours, stranger, host, tmp_path)
