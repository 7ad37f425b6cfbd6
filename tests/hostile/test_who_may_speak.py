"""Whose signatures make a threshold, and who may describe a build: at every door, in both forms."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.schema.trust_policy import Accepts, TrustPolicy
from aotc_runtime.verification.bundle_examination import verify
from aotc_runtime.verification.provenance_rules import CLOCKS_DIFFER

from .archives import on_disk
from .doors import READY, Capture, at_every_door
from .provenances import BUILDER, ENDORSEMENT, NOW, a_build, attested, key_of
from .tampering import (
    Documents,
    envelope,
    put_together,
    root_digest,
    signed,
    signed_envelope,
    statement_about,
    to_json,
)

OTHER = "https://example.org/other"
EITHER_FORM = pytest.mark.parametrize("form", ["archive", "folder"])


@pytest.fixture(scope="module")
def newer() -> LocalSigner:
    """The key that takes the place of `ours`."""
    return LocalSigner.ephemeral()


def written(folder: Path, keys: Sequence[tuple[LocalSigner, str]], head: str = "") -> Path:
    """A policy file with these keys, each with what is said of it."""
    lines = ["schema = 1", 'name = "digits"', head]
    for signer, stated in keys:
        lines += ["[[keys]]", f'public_key = """\n{signer.public_pem()}"""', stated]
    path = folder / "trust.toml"
    path.write_text("\n".join(lines))
    return path


@EITHER_FORM
def test_two_keys_of_one_holder_do_not_make_a_threshold_of_two(
    form: str,
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    newer: LocalSigner,
    tmp_path: Path,
    capfd: Capture,
) -> None:
    held = [(ours, 'holder = "ci"'), (newer, 'holder = "ci"'), (stranger, 'holder = "release"')]
    trust = written(tmp_path, held, "threshold = 2")
    twice = on_disk(signed(documents, ours, newer), form, tmp_path)
    assert at_every_door(twice, trust, capfd) == [("AOTC-E304", 5)] * 3
    both = tmp_path / "both"
    both.mkdir()
    released = on_disk(signed(documents, newer, stranger), form, both)
    assert at_every_door(released, trust, capfd) == [READY] * 3


@EITHER_FORM
def test_a_key_describes_no_build_of_a_builder_that_it_may_not_speak_for(
    form: str,
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    tmp_path: Path,
    capfd: Capture,
) -> None:
    roles = [(ours, f'builders = ["{BUILDER}"]'), (stranger, "")]
    head = f'accepts.builders = ["{BUILDER}"]\nminimum_build_time = 2026-11-01T00:00:00Z'
    trust = written(tmp_path, roles, head)
    claimed = on_disk(attested(documents, (stranger, a_build())), form, tmp_path)
    assert at_every_door(claimed, trust, capfd) == [("AOTC-E323", 5)] * 3
    good = tmp_path / "good"
    good.mkdir()
    endorsed = on_disk(attested(documents, (ours, a_build()), (stranger, ENDORSEMENT)), form, good)
    assert at_every_door(endorsed, trust, capfd) == [READY] * 3


@EITHER_FORM
def test_a_build_that_has_not_ended_yet_is_refused(
    form: str, documents: Documents, ours: LocalSigner, tmp_path: Path, capfd: Capture
) -> None:
    trust = written(tmp_path, [(ours, "")], "minimum_build_time = 2026-11-01T00:00:00Z")
    build = a_build(finished=datetime.fromisoformat("2999-01-01T00:00:00Z"))
    path = on_disk(attested(documents, (ours, build)), form, tmp_path)
    assert at_every_door(path, trust, capfd) == [("AOTC-E315", 5)] * 3


def findings(
    documents: Documents, policy: TrustPolicy, host: HostFacts, *said: tuple[LocalSigner, Any]
) -> list[Finding]:
    try:
        verify(attested(documents, *said), policy, host, NOW.timestamp())
    except AotcError as error:
        return list(error.findings)
    return []


def codes(
    documents: Documents, policy: TrustPolicy, host: HostFacts, *said: tuple[LocalSigner, Any]
) -> list[str]:
    return [found.code for found in findings(documents, policy, host, *said)]


def policy_of(*keys: Any, **more: Any) -> TrustPolicy:
    return TrustPolicy(schema=1, name="digits", keys=keys, **more)


def test_keys_without_a_holder_count_one_by_one_as_ever(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_of(key_of(ours), key_of(stranger), threshold=2)
    assert codes(documents, policy, host, (ours, a_build()), (stranger, ENDORSEMENT)) == []
    (found,) = findings(documents, policy, host, (ours, a_build()))
    assert found.expected.startswith("signatures by 2 distinct keys of ")


def test_the_refusal_names_the_holder_who_signed_twice(
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    newer: LocalSigner,
    host: HostFacts,
) -> None:
    held = (key_of(ours, holder="ci"), key_of(newer, holder="ci"), key_of(stranger))
    policy = policy_of(*held, threshold=2)
    (found,) = findings(documents, policy, host, (ours, a_build()), (newer, ENDORSEMENT))
    assert found.found.startswith("2 of them: ") and ", all of them of ci;" in found.found
    assert found.expected.startswith("signatures by keys of 2 distinct holders of ")
    (found,) = findings(documents, policy, host, (stranger, a_build()))
    assert "all of them" not in found.found


def test_an_expired_key_is_not_to_blame_where_its_holder_has_signed(
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    newer: LocalSigner,
    host: HostFacts,
) -> None:
    ended = {"holder": "ci", "not_after": NOW - timedelta(days=1)}
    held = (key_of(ours, **ended), key_of(newer, holder="ci"), key_of(stranger))
    policy = policy_of(*held, threshold=2)
    said = [(ours, ENDORSEMENT), (newer, a_build())]
    assert codes(documents, policy, host, *said) == ["AOTC-E304"]
    alone = policy_of(*held[::2], threshold=2)
    assert codes(documents, alone, host, *said) == ["AOTC-E311"]


BOUND: list[tuple[str, list[tuple[int, Any]], list[str]]] = [
    ("its own builder", [(0, a_build())], []),
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
    _: str,
    said: list[tuple[int, Any]],
    expected: list[str],
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    newer: LocalSigner,
    host: HostFacts,
) -> None:
    signers = (ours, stranger, newer)
    bound = (key_of(ours, builders=(BUILDER,)), key_of(stranger), key_of(newer, builders=(OTHER,)))
    made = [(signers[number], statement) for number, statement in said]
    assert codes(documents, policy_of(*bound), host, *made) == expected


@pytest.mark.parametrize("stated", [{}, {"builders": ()}])
def test_a_key_that_may_speak_for_nobody_is_told_so(
    stated: dict[str, Any],
    documents: Documents,
    ours: LocalSigner,
    stranger: LocalSigner,
    host: HostFacts,
) -> None:
    policy = policy_of(key_of(ours, builders=(BUILDER,)), key_of(stranger, **stated))
    (found,) = findings(documents, policy, host, (stranger, a_build()))
    assert found.where.endswith("attestation 1") and stranger.key_id[:16] in found.found
    assert found.found.startswith(f"a build by {BUILDER}")
    assert found.expected.endswith("keys.builders: none: it only endorses")
    (found,) = findings(documents, policy, host, (ours, a_build(builder=OTHER)))
    assert found.expected.endswith(f"keys.builders: {BUILDER}")


def test_one_envelope_by_two_keys_speaks_for_what_one_of_them_may(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_of(key_of(ours, builders=(BUILDER,)), key_of(stranger), threshold=2)
    payload = to_json({**statement_about(root_digest(documents)), "predicate": a_build()})
    documents.envelopes = [signed_envelope(payload, ours, stranger)]
    verify(put_together(documents), policy, host, NOW.timestamp())


def test_a_claim_by_a_keys_id_alone_speaks_for_nobody(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    """The builder's id stands beside a signature that the endorsing key has made."""
    policy = policy_of(key_of(ours, builders=(BUILDER,)), key_of(stranger))
    payload = to_json({**statement_about(root_digest(documents)), "predicate": a_build()})
    made = signed_envelope(payload, stranger, keyid="")
    documents.envelopes = [made, envelope(b"x", (ours.key_id[:16], b"y"))]
    with pytest.raises(AotcError) as refused:
        verify(put_together(documents), policy, host, NOW.timestamp())
    assert refused.value.code == "AOTC-E323"


def test_a_policy_that_binds_no_key_means_what_it_meant(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_of(key_of(ours), key_of(stranger), accepts=Accepts(builders=(BUILDER,)))
    assert codes(documents, policy, host, (stranger, a_build())) == []
    assert codes(documents, policy_of(key_of(ours)), host, (ours, {})) == []


@pytest.mark.parametrize(("ahead", "refused"), [(0, False), (CLOCKS_DIFFER, False), (301, True)])
@pytest.mark.parametrize(
    "rules",
    [
        {"minimum_build_time": NOW},
        {"accepts": Accepts(builders=(BUILDER,))},
        {"bound": True},
    ],
    ids=lambda rules: next(iter(rules)),
)
def test_a_build_may_end_five_minutes_ahead_of_this_clock_and_no_later(
    rules: dict[str, Any],
    ahead: int,
    refused: bool,
    documents: Documents,
    ours: LocalSigner,
    host: HostFacts,
) -> None:
    stated = {"builders": (BUILDER,)} if "bound" in rules else {}
    more = {name: value for name, value in rules.items() if name != "bound"}
    policy = policy_of(key_of(ours, **stated), **more)
    build = a_build(finished=NOW + timedelta(seconds=ahead))
    found = findings(documents, policy, host, (ours, build))
    assert [each.code for each in found] == ["AOTC-E315"] * refused
    if refused:
        assert found[0].found == (NOW + timedelta(seconds=ahead)).isoformat()
        assert "2026-11-21T12:00:00" in found[0].expected


def test_a_build_that_states_no_time_is_not_from_the_future(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_of(key_of(ours, builders=(BUILDER,)))
    assert codes(documents, policy, host, (ours, a_build(finished=None))) == []
