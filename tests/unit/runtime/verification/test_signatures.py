"""Signers of an envelope, by the signatures alone, whatever it claims, and within bounds."""

import pytest

from aotc.bundle.sign.attestation import is_signed_by
from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.formats.in_toto import SignedPayload, open_envelope
from aotc_runtime.verification.public_keys import PublicKey, Trials, load_public_key
from aotc_runtime.verification.root_signatures import match_signatures
from tests.hostile.tampering import authenticated, envelope

from ..samples import refused

ONE, TWO, STRANGER = (LocalSigner.ephemeral() for _ in range(3))
KEYS = {signer.key_id: load_public_key(signer.public_pem(), "", "here") for signer in (ONE, TWO)}


def opened(*pairs: tuple[str, bytes], payload: bytes = b"payload") -> SignedPayload:
    return open_envelope(envelope(payload, *pairs), "here")


def makers(signed: SignedPayload, keys: dict[str, PublicKey] = KEYS) -> list[tuple[str, str]]:
    return [
        (claimed, maker.id if maker else "")
        for claimed, maker in match_signatures(signed, keys, Trials())
    ]


@pytest.mark.parametrize(
    "claimed",
    ["", "unknown", ONE.key_id, TWO.key_id],
    ids=["none", "unknown", "another", "its own"],
)
def test_the_key_that_made_a_signature_is_found_whatever_is_claimed(claimed: str) -> None:
    signed = opened((claimed, TWO.sign(authenticated(b"payload"))))
    assert makers(signed) == [(claimed, TWO.key_id)]
    assert [is_signed_by(signed, key) for key in KEYS.values()] == [False, True]


def test_a_signature_by_another_key_or_over_something_else_has_no_maker() -> None:
    message = authenticated(b"payload")
    signed = opened((ONE.key_id, STRANGER.sign(message)), ("", ONE.sign(b"payload")))
    assert makers(signed) == [(ONE.key_id, ""), ("", "")]
    assert not any(is_signed_by(signed, key) for key in KEYS.values())
    assert makers(opened(("", ONE.sign(message))), {}) == [("", "")]


def test_each_signature_is_judged_by_itself_in_the_order_of_the_envelope() -> None:
    message = authenticated(b"payload")
    pairs = [("x", each.sign(message)) for each in (TWO, STRANGER, ONE)]
    assert makers(opened(*pairs)) == [("x", TWO.key_id), ("x", ""), ("x", ONE.key_id)]


def test_an_envelope_may_have_as_many_signatures_as_the_limit() -> None:
    pairs = [("", bytes([number])) for number in range(limits.SIGNATURES_MAX)]
    assert len(opened(*pairs).signatures) == limits.SIGNATURES_MAX


@pytest.mark.parametrize("spare", [0, -1])
def test_as_much_is_tried_as_the_limit_says(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    message = authenticated(b"payload")
    signed = opened(("", STRANGER.sign(message)))
    enough = len(KEYS) * (len(message) + limits.TRIAL_BYTES)
    monkeypatch.setattr(limits, "TRIED_BYTES_MAX", enough + spare)
    if spare == 0:
        assert makers(signed) == [("", "")]
        return
    with refused("AOTC-E119"):
        makers(signed)
