"""Tests of revoking a served bundle by its policy, without its files."""

from pathlib import Path

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc.bundle.trust.trust_text import policy_text
from aotc_runtime import LoadedBundle
from aotc_runtime.base.errors import refusal
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.policy_reader import parse_policy, read_policy
from aotc_serve.service.policy_recheck import is_refused_by_policy, revocations
from tests.conftest import Bundle


def codes(bundle: LoadedBundle, text: str) -> list[str]:
    return [found.code for found in revocations(bundle, parse_policy(text, Path(), "policy"))]


@pytest.fixture
def text(digits_bundle: Bundle) -> str:
    return digits_bundle[1].read_text("utf-8")


def test_loading_policy_is_fine(digits: LoadedBundle, digits_bundle: Bundle) -> None:
    assert not [*revocations(digits, read_policy(digits_bundle[1]))]


def test_root_blob_key_and_version_can_be_revoked(digits: LoadedBundle, text: str) -> None:
    blob = next(iter(references(digits.manifest)))
    (signer,) = digits.signers
    for revoked, code in (
        (f'roots = ["{digits.root_digest}"]', "AOTC-E313"),
        (f'blobs = ["{blob}"]', "AOTC-E314"),
        (f'keys = ["{signer}"]', "AOTC-E312"),
        (f'since = {{ "{signer}" = 2020-01-01T00:00:00Z }}', "AOTC-E312"),
    ):
        assert codes(digits, f"{text}\n[revoked]\n{revoked}\n") == [code]
    assert codes(digits, text.replace("\n[[", '\nminimum_version = "9.0.0"\n\n[[', 1)) == [
        "AOTC-E307"
    ]


def test_policy_without_the_signer_revokes(digits: LoadedBundle) -> None:
    assert codes(digits, policy_text("digits", [LocalSigner.ephemeral().public_pem()])) == [
        "AOTC-E302"
    ]


@pytest.mark.parametrize(
    ("code", "expected"), [("AOTC-E313", True), ("AOTC-E309", False), ("AOTC-E311", False)]
)
def test_broken_policies_and_expired_keys_are_no_revocation(code: str, expected: bool) -> None:
    error = refusal(code, "x", "y", expected="z", hint="w")
    assert is_refused_by_policy(error) is expected
