"""A bundle is read as far as its reader relies on it: digests, signatures, the policy's rules."""

import time
from pathlib import Path

import pytest

from aotc.bundle.read.opened_bundle import Opened, open_attributed, open_valid
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import parse_policy

GOLDEN = Path(__file__).parents[3] / "golden"
NOW = time.time()


def policy(name: str, rules: str = "") -> TrustPolicy:
    key = (GOLDEN / "golden.pub").read_text("utf-8")
    return parse_policy(rules + policy_text(name, [key]), GOLDEN, "policy")


def read(name: str, asked: TrustPolicy | None, reader: object = open_valid) -> Opened:
    assert callable(reader)
    found = reader(open_bundle(GOLDEN / f"{name}.aotb"), asked, NOW)
    assert isinstance(found, Opened)
    return found


@pytest.mark.parametrize("reader", [open_valid, open_attributed])
def test_without_a_policy_nobody_signs_and_the_claims_are_there_to_read(reader: object) -> None:
    found = read("digits", None, reader)
    assert (found.name, found.version, found.verified) == ("digits", "1.0.0", False)
    assert not found.signers and not found.provenance and len(found.envelopes)


@pytest.mark.parametrize("reader", [open_valid, open_attributed])
def test_a_policy_says_who_signed(reader: object) -> None:
    found = read("digits", policy("digits"), reader)
    assert found.verified and len(found.signers) == 1
    assert found.root_digest == read("digits", None).root_digest == found.contents.root_digest


def test_rules_of_the_policy_are_asked_by_whoever_relies_on_them() -> None:
    fewer = policy("sizes", 'furthest_fallback = "split"\n')
    with pytest.raises(TrustError) as caught:
        read("sizes", fewer)
    assert {finding.code for finding in caught.value.findings} == {"AOTC-E319"}
    assert read("sizes", fewer, open_attributed).verified
