"""What may be done while weights are hashed: with executables that were, and never with others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import aotc_runtime
from aotc_runtime import IntegrityError, TrustPolicy
from aotc_runtime.engines.xla.client import XlaDevice
from aotc_runtime.errors import AotcError
from aotc_runtime.schema.facts import HostFacts
from aotc_runtime.schema.proof import VerifiedBlob
from aotc_runtime.system.store import open_bundle
from aotc_runtime.verification.verify import verify

from .tampering import MemoryBundle, digest_of, in_memory, roles


def flipped_in(bundle: MemoryBundle, role: str) -> MemoryBundle:
    digest = roles(bundle)[role]
    data = bundle.blobs[digest]
    return bundle.with_blob(digest, data[:-1] + bytes([data[-1] ^ 1]))


def given_meanwhile(
    bundle: Any, policy: TrustPolicy, host: HostFacts
) -> tuple[str, dict[str, VerifiedBlob]]:
    """The outcome, and the blobs that were handed out before it was known."""
    blobs: dict[str, VerifiedBlob] = {}

    def keep(_: Any, executables: Mapping[str, VerifiedBlob]) -> None:
        blobs.update(executables)

    try:
        verify(bundle, policy, host, meanwhile=keep)
    except AotcError as error:
        return error.code, blobs
    return "accepted", blobs


def test_only_executables_are_handed_out_and_only_hashed_ones(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    outcome, blobs = given_meanwhile(genuine, policy, host)
    assert outcome == "accepted" and roles(genuine)["executable"] in blobs
    assert all(digest_of(bytes(blob.data)) == digest for digest, blob in blobs.items())
    assert roles(genuine)["weights"] not in blobs and roles(genuine)["fixture"] not in blobs


@pytest.mark.parametrize("role", ["executable", "module", "fixture"])
def test_nothing_is_handed_out_of_a_bundle_with_another_small_blob(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts, role: str
) -> None:
    assert given_meanwhile(flipped_in(genuine, role), policy, host) == ("AOTC-E201", {})


def test_other_weights_are_refused_whatever_was_handed_out(
    genuine: MemoryBundle, policy: TrustPolicy, host: HostFacts
) -> None:
    outcome, blobs = given_meanwhile(flipped_in(genuine, "weights"), policy, host)
    assert outcome == "AOTC-E201" and blobs


def test_other_weights_are_refused_before_anything_runs(
    digits_bundle: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, policy = digits_bundle
    bad = tmp_path / "bad"
    for name, data in flipped_in(in_memory(path), "weights").members().items():
        (bad / name).parent.mkdir(parents=True, exist_ok=True)
        (bad / name).write_bytes(data)
    assert open_bundle(bad).digests()
    ran: list[Any] = []
    monkeypatch.setattr(XlaDevice, "execute", lambda *call: ran.append(call))
    with pytest.raises(IntegrityError) as caught:
        aotc_runtime.load(bad, trust=policy)
    assert caught.value.code == "AOTC-E201" and not ran
