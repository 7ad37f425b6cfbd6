"""An entry of a remote cache is used if a trusted key sealed exactly it for this task."""

import base64
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies

from aotc.bundle.sign.attestation import seal
from aotc.bundle.sign.signer import LocalSigner
from aotc.commands.remote_cache.cache_seal import PAYLOAD_TYPE, Refusal, Sealed, Seals
from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import sha256
from aotc_runtime.formats import in_toto
from aotc_runtime.verification.public_keys import load_public_key

KEY, OTHER, DATA = sha256(b"key"), sha256(b"other"), b"data\nof an entry"
OURS, STRANGER = LocalSigner.ephemeral(), LocalSigner.ephemeral()


def seals(*trusted: LocalSigner, sealer: LocalSigner | None = OURS) -> Seals:
    keys = [load_public_key(signer.public_pem(), "", "") for signer in trusted or (OURS,)]
    return Seals(sealer, {key.id: key for key in keys})


def changed(change: Callable[[in_toto.Envelope], in_toto.Envelope]) -> bytes:
    """An entry whose envelope was changed."""
    head, _, data = seals().seal(KEY, DATA).partition(b"\n")
    envelope = change(msgspec.json.decode(head, type=in_toto.Envelope))
    return canonical_json.encode(envelope) + b"\n" + data


def signed(payload_type: str, payload: bytes) -> bytes:
    """An entry with what our key signed, whatever it is."""
    return seal(payload_type, payload, OURS) + b"\n" + DATA


def pretending(envelope: in_toto.Envelope) -> in_toto.Envelope:
    """A stranger's signature under our key's id."""
    signature = STRANGER.sign(
        in_toto.pre_authentication_encoding(PAYLOAD_TYPE, base64.b64decode(envelope.payload))
    )
    sig = base64.b64encode(signature).decode()
    return msgspec.structs.replace(
        envelope, signatures=(in_toto.Signature(sig=sig, keyid=OURS.key_id),)
    )


def unsigned(envelope: in_toto.Envelope) -> in_toto.Envelope:
    return msgspec.structs.replace(envelope, signatures=())


ENTRY = seals().seal(KEY, DATA)
PAYLOAD = canonical_json.encode(Sealed(key=KEY, data=sha256(DATA), size=len(DATA)))

ATTACKS = {
    "data changed": (lambda: seals().seal(KEY, DATA)[:-1] + b"?", Refusal.DAMAGED),
    "data cut": (lambda: seals().seal(KEY, DATA)[:-1], Refusal.DAMAGED),
    "head cut": (lambda: seals().seal(KEY, DATA)[:100], Refusal.DAMAGED),
    "empty": (lambda: b"", Refusal.DAMAGED),
    "no envelope": (lambda: b"{}\n" + DATA, Refusal.DAMAGED),
    "not sealed": (lambda: DATA, Refusal.DAMAGED),
    "unsigned": (lambda: changed(unsigned), Refusal.UNSIGNED),
    "a stranger's": (lambda: seals(sealer=STRANGER).seal(KEY, DATA), Refusal.STRANGER),
    "forged": (lambda: changed(pretending), Refusal.FORGED),
    "of another task": (lambda: seals().seal(OTHER, DATA), Refusal.MOVED),
    "another kind": (lambda: signed("application/vnd.in-toto+json", PAYLOAD), Refusal.MOVED),
    "no statement": (lambda: signed(PAYLOAD_TYPE, b"{}"), Refusal.DAMAGED),
}


def test_what_was_sealed_is_opened() -> None:
    assert seals().open(KEY, seals().seal(KEY, DATA)) == DATA
    assert seals().open(KEY, seals().seal(KEY, b"")) == b""
    assert seals(STRANGER, OURS).open(KEY, seals().seal(KEY, DATA)) == DATA


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_entry_is_refused_that_is(attack: str) -> None:
    make, refusal = ATTACKS[attack]
    assert seals().open(KEY, make()) is refusal


@given(strategies.data())
def test_whatever_lies_there_is_the_entry_or_refused(data: strategies.DataObject) -> None:
    entry = bytearray(ENTRY)
    for _ in range(data.draw(strategies.integers(1, 4))):
        at = data.draw(strategies.integers(0, len(entry)))
        end = at + data.draw(strategies.integers(0, 3))
        entry[at:end] = data.draw(strategies.binary(max_size=3))
    found = seals().open(KEY, bytes(entry))
    assert isinstance(found, Refusal) or found == DATA


@given(strategies.binary(max_size=300))
def test_bytes_that_nobody_sealed_are_refused(entry: bytes) -> None:
    assert isinstance(seals().open(KEY, entry), Refusal)
    assert isinstance(seals().open(KEY, entry + b"\n" + DATA), Refusal)


def test_only_an_entry_that_is_sealed_for_this_task_has_a_size() -> None:
    entry = seals().seal(KEY, DATA)
    assert seals().size(KEY, entry[: -len(DATA)]) == len(entry)
    for head in (b"", b"x" * 4096, entry[:100], seals().seal(OTHER, DATA)):
        assert seals().size(KEY, head) == 0
    assert seals(sealer=STRANGER).size(KEY, seals(sealer=STRANGER).seal(KEY, DATA)) == 0


def test_an_envelope_of_great_depth_is_refused() -> None:
    assert seals().open(KEY, b"[" * 4000 + b"\n") is Refusal.DAMAGED
    assert seals().open(KEY, b" " * 5000 + seals().seal(KEY, DATA)) is Refusal.DAMAGED


def test_the_same_entry_is_sealed_with_the_same_bytes() -> None:
    assert seals().seal(KEY, DATA) == seals().seal(KEY, DATA)
    assert replace(seals(), sealer=STRANGER).seal(KEY, DATA) != seals().seal(KEY, DATA)
