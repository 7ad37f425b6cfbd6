"""Signatures, and what the keys that made them may say."""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.bundle.sign.signer import KeyType, LocalSigner
from aotc_runtime.base import limits
from aotc_runtime.base.errors import TrustError
from aotc_runtime.schema.trust_policy import Accepts, TrustedKey, TrustPolicy
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.policy_reader import policy_keys
from aotc_runtime.verification.provenance_rules import CLOCKS_DIFFER

from .archives import on_disk
from .doors import READY, Capture, at_every_door
from .provenances import BUILDER, ENDORSEMENT, NOW, a_build, key_of
from .tampering import (
    MemoryBundle,
    authenticated,
    envelope,
    policy_for,
    put_together,
    root_digest,
    signed_envelope,
    statement_about,
    to_json,
)
from .workbench import Workbench


def payload_of(bench: Workbench) -> bytes:
    return to_json(statement_about(root_digest(bench.documents)))


def codes_of(bench: Workbench, policy: TrustPolicy, *envelopes: bytes) -> list[str]:
    """The codes of the findings for the bundle with these envelopes."""
    bench.documents.envelopes = list(envelopes)
    return bench.codes(put_together(bench.documents), policy)


@pytest.mark.parametrize("keyid", ["", "0" * 64, "ci", "x" * 1000])
def test_the_key_id_is_a_hint_and_excludes_nobody(keyid: str, bench: Workbench) -> None:
    made = signed_envelope(payload_of(bench), bench.ours, keyid=keyid)
    assert codes_of(bench, bench.policy(), made) == []


def test_untrusted_signature_beside_a_trusted_one_does_not_count(bench: Workbench) -> None:
    bundle = bench.signed(bench.stranger, bench.ours)
    verdict = examine(bundle, bench.policy(), bench.host, time.time())
    assert verdict.signers == (bench.ours.key_id,)


def test_two_signatures_by_one_key_do_not_meet_a_threshold_of_two(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = policy_for(ours, stranger, threshold=2)
    assert bench.codes(bench.signed(ours, ours), policy) == ["AOTC-E304"]
    payload = payload_of(bench)
    ecdsa = LocalSigner.ephemeral(KeyType.ECDSA_P256)
    assert isinstance(ecdsa.key, ec.EllipticCurvePrivateKey)
    message = authenticated(payload)
    anew = [ecdsa.key.sign(message, ec.ECDSA(hashes.SHA256())) for _ in range(2)]
    in_one = envelope(payload, *[(ecdsa.key_id, signature) for signature in anew])
    policy = policy_for(ecdsa, stranger, threshold=2)
    assert codes_of(bench, policy, in_one) == ["AOTC-E304"]
    mixed = signed_envelope(payload, ecdsa, keyid="another")
    assert codes_of(bench, policy, in_one, mixed) == ["AOTC-E304"]


def test_two_keys_meet_a_threshold_of_two_in_one_envelope_or_in_two(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = policy_for(ours, stranger, threshold=2)
    assert bench.codes(bench.signed(ours, stranger), policy) == []
    assert codes_of(bench, policy, signed_envelope(payload_of(bench), ours, stranger)) == []


def test_one_key_twice_in_the_policy_is_one_key(bench: Workbench) -> None:
    ours = bench.ours
    assert bench.codes(bench.signed(), policy_for(ours, ours)) == []
    again = key_of(ours).public_key.replace("\n", "\r\n")
    for second in (key_of(ours), TrustedKey(public_key=again)):
        twice = bench.policy(key_of(ours), second, threshold=2)
        assert bench.codes(bench.signed(ours, ours), twice) == ["AOTC-E309"]


@pytest.mark.parametrize("which", ["after another", "empty"])
def test_what_is_not_one_key_is_none(which: str, bench: Workbench) -> None:
    block = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"
    both = bench.stranger.public_pem() + bench.ours.public_pem()
    policy = bench.policy(TrustedKey(public_key=both if which == "after another" else block))
    assert bench.codes(bench.signed(bench.stranger), policy) == ["AOTC-E310"]


def test_p256_signatures_count(bench: Workbench) -> None:
    signer, other = (LocalSigner.ephemeral(KeyType.ECDSA_P256) for _ in range(2))
    assert bench.codes(bench.signed(signer), policy_for(signer)) == []
    assert bench.codes(bench.signed(signer), policy_for(other)) == ["AOTC-E302"]


def test_a_statement_about_two_bundles_vouches_for_neither(bench: Workbench) -> None:
    statement = statement_about(root_digest(bench.documents))
    statement["subject"].append({"name": "other", "digest": {"sha256": "0" * 64}})
    made = signed_envelope(to_json(statement), bench.ours)
    assert codes_of(bench, bench.policy(), made) == ["AOTC-E305"]


@pytest.mark.parametrize("signature", [b"", b"\0" * 64, b"\0" * 10_000, b"x"])
def test_signature_of_any_length_is_refused(signature: bytes, bench: Workbench) -> None:
    ours, p256 = bench.ours, LocalSigner.ephemeral(KeyType.ECDSA_P256)
    payload, policy = payload_of(bench), policy_for(ours, p256)
    for keyid, code in (("", "AOTC-E302"), (ours.key_id, "AOTC-E303"), (p256.key_id, "AOTC-E303")):
        assert codes_of(bench, policy, envelope(payload, (keyid, signature))) == [code]


def test_surplus_attestations_refused(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ATTESTATIONS_MAX", 1)
    assert bench.codes(bench.signed(), bench.policy()) == []
    assert bench.codes(bench.signed(bench.ours, bench.ours), bench.policy()) == ["AOTC-E111"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, []) for name in ("digits", "dig*", "*")),
        *((name, ["AOTC-E306"]) for name in ("digit", "Digits", "vision", "digits-*")),
    ],
)
def test_policy_for_other_name_refuses(name: str, expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(name=name)) == expected


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        *((minimum, []) for minimum in ("1.0.0", "1.0", "1.0.0-rc1")),
        *((minimum, ["AOTC-E307"]) for minimum in ("1.0.1", "1.0.0.post1", "2")),
        ("latest", ["AOTC-E309"]),
    ],
)
def test_minimum_version_refuses(minimum: str, expected: list[str], bench: Workbench) -> None:
    assert bench.codes(bench.signed(), bench.policy(minimum_version=minimum)) == expected


def test_a_signed_version_that_is_no_version_does_not_pass_a_minimum(bench: Workbench) -> None:
    bench.documents.manifest["version"] = "newest"
    bundle = bench.signed()
    assert bench.codes(bundle, bench.policy()) == []
    assert bench.codes(bundle, bench.policy(minimum_version="0.1")) == ["AOTC-E307"]


def test_nothing_of_an_untrusted_bundle_is_reported_as_its_content(bench: Workbench) -> None:
    bundle = bench.signed(bench.stranger)
    verdict = examine(bundle, bench.policy(), bench.host, time.time())
    assert verdict.choice is None and verdict.manifest is None and verdict.signers == ()
    assert verdict.gates == ("framing", "attestations")


OTHER = "https://example.org/other"
EITHER_FORM = pytest.mark.parametrize("form", ["archive", "folder"])
SINCE = "minimum_build_time = 2026-11-01T00:00:00Z"


class Doors:
    """Every door, for a bundle and a policy file. keys: each with what is said of it."""

    def __init__(self, form: str, folder: Path, capfd: Capture) -> None:
        self._form, self._folder, self._capfd = form, folder, capfd
        self._trust = folder / "trust.toml"

    def trust(self, keys: Sequence[tuple[LocalSigner, str]], head: str = "") -> None:
        lines = ["schema = 1", 'name = "digits"', head]
        for signer, stated in keys:
            lines += ["[[keys]]", f'public_key = """\n{signer.public_pem()}"""', stated]
        self._trust.write_text("\n".join(lines))

    def answer(self, bundle: MemoryBundle) -> tuple[str, int]:
        folder = self._folder / str(len(list(self._folder.iterdir())))
        folder.mkdir()
        path = on_disk(bundle, self._form, folder)
        (answer,) = set(at_every_door(path, self._trust, self._capfd))
        return answer


@pytest.fixture
def doors(form: str, tmp_path: Path, capfd: Capture) -> Doors:
    return Doors(form, tmp_path, capfd)


@EITHER_FORM
def test_two_keys_of_one_holder_are_no_threshold(bench: Workbench, doors: Doors) -> None:
    ours, stranger, newer = bench.ours, bench.stranger, bench.third
    held = [(ours, 'holder = "ci"'), (newer, 'holder = "ci"'), (stranger, 'holder = "release"')]
    doors.trust(held, "threshold = 2")
    assert doors.answer(bench.signed(ours, newer)) == ("AOTC-E304", 5)
    assert doors.answer(bench.signed(newer, stranger)) == READY


@EITHER_FORM
@pytest.mark.parametrize("other", ["CI", "ci ", "c\u200bi", "ｃｉ", "ci\ufe0f", "c\u034fi"])
def test_holders_that_look_alike_are_no_threshold(
    other: str, bench: Workbench, doors: Doors
) -> None:
    held = [(bench.ours, 'holder = "ci"'), (bench.third, f'holder = "{other}"')]
    doors.trust([*held, (bench.stranger, 'holder = "release"')], "threshold = 2")
    assert doors.answer(bench.signed(bench.ours, bench.third)) == ("AOTC-E309", 5)
    doors.trust(held, "threshold = 1")
    assert doors.answer(bench.signed(bench.ours)) == READY


def test_composed_and_decomposed_holders_are_one(bench: Workbench) -> None:
    held = (key_of(bench.ours, holder="Zo\u00eb"), key_of(bench.third, holder="Zoe\u0308"))
    with pytest.raises(TrustError) as caught:
        policy_keys(bench.policy(*held, threshold=2))
    assert caught.value.findings[0].found == "'Zoe\\u0308' and 'Zo\\xeb'"


@EITHER_FORM
def test_key_describes_only_builds_of_its_builders(bench: Workbench, doors: Doors) -> None:
    ours, stranger = bench.ours, bench.stranger
    head = f'accepts.builders = ["{BUILDER}"]\n{SINCE}'
    doors.trust([(ours, f'builders = ["{BUILDER}"]'), (stranger, "")], head)
    assert doors.answer(bench.attested((stranger, a_build()))) == ("AOTC-E323", 5)
    assert doors.answer(bench.attested((ours, a_build()), (stranger, ENDORSEMENT))) == READY


@EITHER_FORM
def test_a_build_that_has_not_ended_yet_is_refused(bench: Workbench, doors: Doors) -> None:
    doors.trust([(bench.ours, "")], SINCE)
    build = a_build(finished=datetime.fromisoformat("2999-01-01T00:00:00Z"))
    assert doors.answer(bench.attested((bench.ours, build))) == ("AOTC-E315", 5)


def test_the_refusal_names_the_holder_who_signed_twice(bench: Workbench) -> None:
    ours, stranger, newer = bench.ours, bench.stranger, bench.third
    held = (key_of(ours, holder="ci"), key_of(newer, holder="ci"), key_of(stranger))
    policy = bench.policy(*held, threshold=2)
    (found,) = bench.findings(bench.attested((ours, a_build()), (newer, ENDORSEMENT)), policy)
    assert found.found.startswith("2: ") and ", held by ci;" in found.found
    assert found.expected.startswith("signatures by keys of 2 distinct holders of ")
    (found,) = bench.findings(bench.attested((stranger, a_build())), policy)
    assert "held by" not in found.found
    plain = bench.policy(key_of(ours), key_of(stranger), threshold=2)
    (found,) = bench.findings(bench.attested(), plain)
    assert found.expected.startswith("signatures by 2 distinct keys of ")


def test_an_expired_key_is_not_to_blame_where_its_holder_has_signed(bench: Workbench) -> None:
    ours, stranger, newer = bench.ours, bench.stranger, bench.third
    ended = {"holder": "ci", "not_after": NOW - timedelta(days=1)}
    held = (key_of(ours, **ended), key_of(newer, holder="ci"), key_of(stranger))
    bundle = bench.attested((ours, ENDORSEMENT), (newer, a_build()))
    assert bench.codes(bundle, bench.policy(*held, threshold=2)) == ["AOTC-E304"]
    assert bench.codes(bundle, bench.policy(*held[::2], threshold=2)) == ["AOTC-E311"]


BOUND: list[tuple[str, list[tuple[int, Any]], list[str]]] = [
    ("its own builder", [(0, a_build())], []),
    ("no time, which is not in the future", [(0, a_build(finished=None))], []),
    ("another one", [(0, a_build(builder=OTHER))], ["AOTC-E323"]),
    ("a spelling of it", [(0, a_build(builder=BUILDER + "/"))], ["AOTC-E323"]),
    ("no builder", [(0, a_build(builder=""))], ["AOTC-E323"]),
    ("an endorsement alone", [(1, ENDORSEMENT)], ["AOTC-E316"]),
    ("an endorsement beside", [(0, a_build()), (1, ENDORSEMENT)], []),
    ("a claim of one that endorses", [(1, a_build())], ["AOTC-E323"]),
    ("a claim beside the builder's", [(0, a_build()), (1, a_build())], ["AOTC-E323"]),
    ("its own endorsement", [(0, ENDORSEMENT)], ["AOTC-E316"]),
    ("another's builder", [(2, a_build())], ["AOTC-E323"]),
    ("each its own", [(0, a_build()), (2, a_build(builder=OTHER))], []),
    ("no provenance of SLSA", [(0, {})], ["AOTC-E106"]),
]


@pytest.mark.parametrize(("_", "said", "expected"), BOUND, ids=[case[0] for case in BOUND])
def test_once_a_key_is_bound_to_builders_every_build_is_described_by_one_of_them(
    _: str, said: list[tuple[int, Any]], expected: list[str], bench: Workbench
) -> None:
    signers = (bench.ours, bench.stranger, bench.third)
    bound = [key_of(signer, builders=who) for signer, who in zip(signers, SPEAK_FOR, strict=True)]
    bundle = bench.attested(*[(signers[number], statement) for number, statement in said])
    assert bench.codes(bundle, bench.policy(*bound)) == expected


SPEAK_FOR = ((BUILDER,), None, (OTHER,))


@pytest.mark.parametrize("stated", [{}, {"builders": ()}])
def test_key_without_builders_is_told(stated: dict[str, Any], bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = bench.policy(key_of(ours, builders=(BUILDER,)), key_of(stranger, **stated))
    (found,) = bench.findings(bench.attested((stranger, a_build())), policy)
    assert found.where.endswith("attestation 1") and stranger.key_id[:16] in found.found
    assert found.found.startswith(f"{BUILDER}, signed by key ")
    assert found.expected == "no builder (keys.builders)"
    (found,) = bench.findings(bench.attested((ours, a_build(builder=OTHER))), policy)
    assert found.expected == f"{BUILDER} (keys.builders)"


def test_an_envelope_speaks_for_what_a_key_that_signed_it_may(bench: Workbench) -> None:
    """One of two keys that signed is enough; beside the endorsing key's signature, the builder's id
    alone is not.
    """
    ours, stranger = bench.ours, bench.stranger
    keys = (key_of(ours, builders=(BUILDER,)), key_of(stranger))
    payload = to_json({**statement_about(root_digest(bench.documents)), "predicate": a_build()})
    bench.documents.envelopes = [signed_envelope(payload, ours, stranger)]
    assert bench.codes(put_together(bench.documents), bench.policy(*keys, threshold=2)) == []
    made = signed_envelope(payload, stranger, keyid="")
    bench.documents.envelopes = [made, envelope(b"x", (ours.key_id[:16], b"y"))]
    assert bench.codes(put_together(bench.documents), bench.policy(*keys)) == ["AOTC-E323"]


def test_a_policy_that_binds_no_key_means_what_it_meant(bench: Workbench) -> None:
    ours, stranger = bench.ours, bench.stranger
    policy = bench.policy(key_of(ours), key_of(stranger), accepts=Accepts(builders=(BUILDER,)))
    assert bench.codes(bench.attested((stranger, a_build())), policy) == []
    assert bench.codes(bench.attested((ours, {})), bench.policy()) == []


@pytest.mark.parametrize(("ahead", "refused"), [(0, False), (CLOCKS_DIFFER, False), (301, True)])
@pytest.mark.parametrize("rule", ["minimum_build_time", "accepts", "builders"])
def test_build_time_may_be_ahead(rule: str, ahead: int, refused: bool, bench: Workbench) -> None:
    rules = {"minimum_build_time": NOW, "accepts": Accepts(builders=(BUILDER,))}
    more = {name: value for name, value in rules.items() if name == rule}
    key = key_of(bench.ours, builders=(BUILDER,) if rule == "builders" else None)
    end = NOW + timedelta(seconds=ahead)
    bundle = bench.attested((bench.ours, a_build(finished=end)))
    found = bench.findings(bundle, bench.policy(key, **more))
    assert [each.code for each in found] == ["AOTC-E315"] * refused
    if refused:
        assert found[0].found == end.isoformat()
        assert "2026-11-21T12:00:00" in found[0].expected
