"""Each rule of a policy: what lies inside is accepted, what lies outside is refused by its code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.host_facts import NOT_INSTALLED, VERSION, Accelerator, HostFacts
from aotc_runtime.schema.trust_policy import Accepts, Revoked, SizeLimits, TrustPolicy
from aotc_runtime.verification.bundle_examination import examine, verify
from aotc_runtime.verification.policy_rules import check_fallbacks

from .provenances import (
    BUILDER,
    DAY,
    ENDORSEMENT,
    NOW,
    SOURCE,
    a_build,
    attested,
    declaring,
    key_of,
)
from .tampering import (
    ACCEPTED,
    ROLES,
    Documents,
    MemoryBundle,
    code_of,
    host_with,
    policy_for,
    put_together,
    roles,
    root_digest,
    second_target,
    signed,
)


def findings(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts, now: datetime = NOW
) -> list[Finding]:
    try:
        verify(bundle, policy, host, now.timestamp())
    except AotcError as error:
        assert error.exit_code == 5
        return list(error.findings)
    return []


def codes(
    bundle: MemoryBundle, policy: TrustPolicy, host: HostFacts, now: datetime = NOW
) -> list[str]:
    return [finding.code for finding in findings(bundle, policy, host, now)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({}, []),
        ({"not_before": NOW}, []),
        ({"not_after": NOW}, []),
        ({"not_before": NOW - DAY, "not_after": NOW + DAY}, []),
        ({"not_before": NOW + timedelta(seconds=1)}, ["AOTC-E311"]),
        ({"not_after": NOW - timedelta(seconds=1)}, ["AOTC-E311"]),
        ({"not_before": NOW - 3 * DAY, "not_after": NOW - 2 * DAY}, ["AOTC-E311"]),
    ],
    ids=str,
)
def test_a_signature_counts_while_its_key_is_valid_both_ends_included(
    window: dict[str, datetime],
    expected: list[str],
    documents: Documents,
    ours: LocalSigner,
    host: HostFacts,
) -> None:
    policy = TrustPolicy(schema=1, name="digits", keys=(key_of(ours, **window),))
    assert codes(signed(documents, ours), policy, host) == expected


def test_a_refusal_names_the_key_its_bound_and_the_clock(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    key = msgspec.structs.replace(key_of(ours, not_after=NOW - DAY), name="ci")
    policy = TrustPolicy(schema=1, name="digits", keys=(key,))
    (found,) = findings(signed(documents, ours), policy, host)
    assert "ci" in found.where and ours.key_id[:16] in found.where
    assert "2026-11-20T12:00:00+00:00" in found.expected and "not_after" in found.expected
    assert "2026-11-21T12:00:00+00:00" in found.found and "expired" in found.found


def test_without_a_given_time_the_clock_of_this_host_counts(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, ours)
    now = datetime.now(UTC)
    for window, expected in (
        ({"not_after": now + DAY}, ACCEPTED),
        ({"not_after": now - DAY}, "AOTC-E311"),
    ):
        policy = TrustPolicy(schema=1, name="digits", keys=(key_of(ours, **window),))
        assert code_of(bundle, policy, host) == expected


def test_a_threshold_is_missed_by_expired_and_revoked_keys_and_each_is_named(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    third = LocalSigner.ephemeral()
    bundle = signed(documents, ours, stranger, third)
    policy = TrustPolicy(
        schema=1,
        name="digits",
        threshold=2,
        keys=(key_of(ours), key_of(stranger, not_after=NOW - DAY), key_of(third)),
        revoked=Revoked(keys=(third.key_id,)),
    )
    found = findings(bundle, policy, host)
    named = {finding.code: finding.where.split()[-1] for finding in found}
    assert named == {"AOTC-E311": stranger.key_id[:16], "AOTC-E312": third.key_id[:16]}
    enough = msgspec.structs.replace(policy, threshold=1)
    assert codes(bundle, enough, host) == []


def test_old_and_new_key_stand_side_by_side_until_the_old_one_expires(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    rotation = (key_of(ours, not_after=NOW), key_of(stranger, not_before=NOW - DAY))
    policy = TrustPolicy(schema=1, name="digits", keys=rotation)
    old, both = signed(documents, ours), signed(documents, ours, stranger)
    assert codes(old, policy, host) == [] == codes(both, policy, host)
    assert codes(old, policy, host, NOW + DAY) == ["AOTC-E311"]
    assert codes(both, policy, host, NOW + DAY) == []


def test_a_revoked_key_never_counts_although_it_is_listed(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, revoked=Revoked(keys=(ours.key_id,)))
    (found,) = findings(signed(documents, ours), policy, host)
    assert found.code == "AOTC-E312" and ours.key_id in found.found


def test_statements_of_keys_that_do_not_count_are_not_even_read(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    revoked = policy_for(ours, stranger, revoked=Revoked(keys=(stranger.key_id,)))
    good = attested(documents, (ours, {}))
    envelope = documents.envelopes[0]
    attested(documents, (stranger, {}), predicate_type="unheard of")
    documents.envelopes.append(envelope)
    assert codes(good, revoked, host) == []
    assert codes(put_together(documents), revoked, host) == []
    assert codes(put_together(documents), policy_for(ours, stranger), host) == ["AOTC-E305"]


def test_a_revoked_root_is_refused_before_anything_behind_it_is_read(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    root = root_digest(documents)
    policy = policy_for(ours, revoked=Revoked(roots=(root,)))
    bundle = signed(documents, ours)
    assert codes(bundle, policy, host) == ["AOTC-E313"]
    assert codes(bundle.with_blob(root, b""), policy, host) == ["AOTC-E313"]
    other = policy_for(ours, revoked=Revoked(roots=("sha256:" + "0" * 64,)))
    assert codes(bundle, other, host) == []


@pytest.mark.parametrize("role", ROLES)
def test_a_revoked_blob_is_refused_and_named_with_its_role(
    role: str, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, ours)
    digest = roles(bundle)[role]
    policy = policy_for(ours, revoked=Revoked(blobs=("sha256:" + "0" * 64, digest)))
    (found,) = findings(bundle, policy, host)
    named = {"envelope": "attestation", "empty config": "attestation"}.get(role, role)
    assert (found.code, found.found) == ("AOTC-E314", digest)
    assert found.where.startswith(named)


BUILT = [
    ({"minimum_build_time": NOW}, []),
    ({"minimum_build_time": NOW + timedelta(seconds=1)}, ["AOTC-E315"]),
    ({"accepts": Accepts(builders=("https://else.org", BUILDER))}, []),
    ({"accepts": Accepts(builders=("https://else.org",))}, ["AOTC-E316"]),
    ({"accepts": Accepts(builders=(BUILDER + "/",))}, ["AOTC-E316"]),
    ({"accepts": Accepts(sources=("sha256:" + "0" * 64, SOURCE))}, []),
    ({"accepts": Accepts(sources=("sha256:" + "0" * 64,))}, ["AOTC-E317"]),
    ({"accepts": Accepts(sources=(SOURCE.replace("sha256", "blake3"),))}, ["AOTC-E317"]),
    (
        {"minimum_build_time": NOW + DAY, "accepts": Accepts(builders=("https://else.org",))},
        ["AOTC-E315", "AOTC-E316"],
    ),
]


@pytest.mark.parametrize(("rules", "expected"), BUILT, ids=str)
def test_the_provenance_satisfies_the_rules_on_builds_or_is_refused(
    rules: dict[str, Any],
    expected: list[str],
    documents: Documents,
    ours: LocalSigner,
    host: HostFacts,
) -> None:
    bundle = attested(documents, (ours, a_build()))
    assert codes(bundle, policy_for(ours, **rules), host) == expected


RULES: dict[str, Any] = {
    "minimum_build_time": NOW - DAY,
    "accepts": Accepts(builders=(BUILDER,), sources=(SOURCE,)),
}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (a_build(), []),
        (a_build(finished=None), ["AOTC-E315"]),
        (a_build(builder=""), ["AOTC-E316"]),
        (a_build(sources=()), ["AOTC-E317"]),
        (a_build(sources=(SOURCE, "gitCommit:" + "a" * 40)), ["AOTC-E317"]),
        (ENDORSEMENT, ["AOTC-E316"]),
        ({}, ["AOTC-E106"]),
        (a_build() | {"runDetails": {"builder": {}}}, ["AOTC-E106"]),
    ],
    ids=["all", "time", "builder", "no source", "one source more", "sign", "none", "malformed"],
)
def test_provenance_that_says_too_little_satisfies_no_rule(
    build: dict[str, Any],
    expected: list[str],
    documents: Documents,
    ours: LocalSigner,
    host: HostFacts,
) -> None:
    bundle = attested(documents, (ours, build))
    assert codes(bundle, policy_for(ours, **RULES), host) == expected


def test_every_account_of_the_build_has_to_satisfy_the_rules_endorsements_give_none(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, stranger, threshold=2, **RULES)
    endorsed = attested(documents, (ours, a_build()), (stranger, ENDORSEMENT))
    assert codes(endorsed, policy, host) == []
    disputed = attested(documents, (ours, a_build()), (stranger, a_build(builder="https://x.org")))
    (found,) = findings(disputed, policy, host)
    assert found.code == "AOTC-E316" and found.where.endswith("attestation 2")
    assert found.found == "https://x.org"


def test_what_an_unknown_key_says_of_the_build_counts_for_nothing(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, **RULES)
    bundle = attested(documents, (ours, a_build(finished=None)), (stranger, a_build()))
    assert codes(bundle, policy, host) == ["AOTC-E315"]
    bundle = attested(documents, (ours, a_build()), (stranger, a_build(finished=None)))
    assert codes(bundle, policy, host) == []


@pytest.mark.xla
def test_the_policy_narrows_the_runtimes_and_never_widens_them(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, ours)
    both = Accepts(jaxlib=("0.0.1", host.jaxlib), aotc_runtime=(VERSION,))
    assert codes(bundle, policy_for(ours, accepts=both), host) == []
    neither = Accepts(jaxlib=("0.0.1",), aotc_runtime=("0.0.0",))
    found = findings(bundle, policy_for(ours, accepts=neither), host)
    assert [f.where.split(".")[-1] for f in found] == ["jaxlib", "aotc_runtime"]
    assert {f.code for f in found} == {"AOTC-E318"} and host.jaxlib in found[0].found
    other = host_with(host, jaxlib="0.0.1")
    assert code_of(bundle, policy_for(ours, accepts=neither), other) == "AOTC-E318"
    wider = policy_for(ours, accepts=Accepts(jaxlib=("0.0.1",)))
    assert code_of(bundle, wider, other) == "AOTC-E401"


NEEDED = {"kinds": ["d"], "memory_bytes": 0, "plugin": "p", "accepts_plugin": ["1"]}
ENGINE = Accelerator(platform="iree", devices=1, kinds=("d",), memory_bytes=0, plugin="1")


def test_what_it_says_of_jaxlib_is_asked_where_jaxlib_may_run_something(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, accepts=Accepts(jaxlib=("0.0.1",)))
    without = host_with(host, jaxlib=NOT_INSTALLED, accelerators=(ENGINE,))
    both = host_with(host, jaxlib="0.12.0", accelerators=(ENGINE,))
    first = documents.manifest
    first["target"]["platform"] = first["requires"]["platform"] = "cpu"
    first["requires"].pop("device", None)
    second_target(documents)
    second = documents.targets[1].manifest
    second["target"]["platform"] = second["requires"]["platform"] = "iree"
    second["requires"]["device"] = NEEDED
    mixed = signed(documents, ours)
    assert (code_of(mixed, policy, without), code_of(mixed, policy, both)) == (
        ACCEPTED,
        "AOTC-E318",
    )
    told = [
        code
        for facts in (without, both)
        for name in (first["target"]["name"], "other")
        for code in [code_of(mixed, policy, facts, name)]
    ]
    assert told == ["AOTC-E318", ACCEPTED, "AOTC-E318", ACCEPTED]


@pytest.mark.parametrize(
    ("declared", "furthest", "refused"),
    [
        ("fail", "fail", False),
        ("pad", "fail", True),
        ("pad", "pad", False),
        ("split", "pad", True),
        ("compile", "split", True),
        ("compile", "compile", False),
        ("compile", None, True),
        ("split", None, False),
    ],
)
def test_an_entry_point_that_falls_back_further_than_the_policy_allows_is_named(
    declared: str, furthest: Any, refused: bool, documents: Documents, ours: LocalSigner
) -> None:
    policy = policy_for(ours, furthest_fallback=furthest)
    found = list(check_fallbacks([declaring(documents, declared)], policy))
    assert [finding.code for finding in found] == ["AOTC-E319"] * refused
    assert all("predict" in finding.where and finding.found == declared for finding in found)


def test_a_bundle_is_asked_how_far_it_falls_back(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    split = {"batch": {"policy": "split", "proof": []}}
    documents.manifest["entry_points"]["predict"]["out_of_profile"] = split
    bundle = signed(documents, ours)
    assert codes(bundle, policy_for(ours, furthest_fallback="split"), host) == []
    assert codes(bundle, policy_for(ours, furthest_fallback="pad"), host) == ["AOTC-E319"]


def test_a_bundle_that_states_finite_numbers_is_refused_under_ieee(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    strict = policy_for(ours, numerics="ieee")
    assert codes(signed(documents, ours), strict, host) == []
    documents.manifest["entry_points"]["predict"]["numerics"] = "finite"
    bundle = signed(documents, ours)
    assert codes(bundle, policy_for(ours), host) == []
    (refused,) = findings(bundle, strict, host)
    assert (refused.code, refused.found) == ("AOTC-E336", 'numerics = "finite"')


@pytest.fixture
def two(documents: Documents, ours: LocalSigner) -> MemoryBundle:
    """The genuine target, and one like it for another engine."""
    second_target(documents, "beads")
    other = documents.targets[-1].manifest
    needed = {"kinds": ["beads"], "memory_bytes": 0, "plugin": "abacus", "accepts_plugin": ["1.0"]}
    other["target"] |= {"platform": "abacus"}
    other["requires"] |= {"platform": "abacus", "isa": [], "device": needed}
    return signed(documents, ours)


@pytest.mark.xla
def test_only_targets_of_engines_that_the_policy_accepts_are_chosen(
    two: MemoryBundle, documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    beads = Accelerator("abacus", devices=1, kinds=("beads",), plugin="1.0")
    facts, now = host_with(host, accelerators=(beads,)), NOW.timestamp()

    def chosen(*engines: str) -> str:
        policy = policy_for(ours, engines=engines or None)
        return verify(two, policy, facts, now).manifest.target.platform

    assert (chosen(), chosen("abacus", "xla"), chosen("xla")) == ("cpu", "cpu", "cpu")
    assert chosen("abacus") == "abacus"
    named = documents.manifest["target"]["name"]
    assert examine(two, policy_for(ours, engines=("xla",)), facts, now, named).findings == ()
    verdict = examine(two, policy_for(ours, engines=("xla",)), facts, now, "beads")
    assert [finding.code for finding in verdict.findings] == ["AOTC-E322"]
    assert "host" not in verdict.gates


@pytest.mark.xla
def test_a_bundle_without_a_target_of_an_accepted_engine_is_refused_for_each(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, ours)
    (found,) = findings(bundle, policy_for(ours, engines=("iree", "abacus")), host)
    assert (found.code, found.found) == ("AOTC-E322", "xla")
    assert found.expected == "the engine iree or abacus, as the trust policy says"


@pytest.mark.xla
def test_engines_and_versions_that_may_not_run_are_told_at_once(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    policy = policy_for(ours, engines=("iree",), accepts=Accepts(aotc_runtime=("0.0.0",)))
    found = findings(signed(documents, ours), policy, host)
    assert [each.code for each in found] == ["AOTC-E322", "AOTC-E318"]


def test_sizes_up_to_the_limits_are_accepted_and_one_more_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    bundle = signed(documents, ours)
    sizes = [len(data) for data in bundle.blobs.values()]
    exact = {"blob_bytes": max(sizes), "bundle_bytes": sum(sizes), "blobs": len(sizes)}
    assert codes(bundle, policy_for(ours, limits=SizeLimits(**exact)), host) == []
    for name, size in exact.items():
        (found,) = findings(bundle, policy_for(ours, limits=SizeLimits(**{name: size - 1})), host)
        assert found.code == "AOTC-E320"
        assert str(size - 1) in found.expected and f"limits.{name}" in found.expected
        assert str(size) in found.found
    all_at_once = SizeLimits(**{name: size - 1 for name, size in exact.items()})
    assert codes(bundle, policy_for(ours, limits=all_at_once), host) == ["AOTC-E320"] * 3


def test_limits_are_asked_before_any_blob_is_read(
    genuine: MemoryBundle, ours: LocalSigner, host: HostFacts
) -> None:
    asked: list[str] = []

    class Watched(MemoryBundle):
        def blob(self, digest: str) -> memoryview | None:
            data = super().blob(digest)
            asked.append(digest)
            # Of no bytes, but as long as the blob: reading it would find another digest.
            return memoryview(bytes(len(data))) if data is not None else None

    watched = Watched(genuine.files, genuine.blobs)
    assert codes(watched, policy_for(ours, limits=SizeLimits(blobs=1)), host) == ["AOTC-E320"]
    assert sorted(asked) == sorted(genuine.blobs)


def test_a_certificate_is_neither_counted_nor_refused(
    documents: Documents, ours: LocalSigner, stranger: LocalSigner, host: HostFacts
) -> None:
    known = "https://aotc.dev/certificate/v1"
    alone = attested(documents, (ours, {"passed": True}), predicate_type=known)
    (found,) = findings(alone, policy_for(ours), host)
    assert found.code == "AOTC-E304" and known in found.found
    certificate = documents.envelopes[0]
    attested(documents, (ours, {}))
    documents.envelopes.append(certificate)
    assert codes(put_together(documents), policy_for(ours), host) == []
    attested(documents, (stranger, {"passed": True}), predicate_type=known)
    documents.envelopes.append(certificate)
    both = policy_for(ours, stranger, threshold=2)
    assert codes(put_together(documents), both, host) == ["AOTC-E304"]


def test_a_certificate_of_another_bundle_is_refused(
    documents: Documents, ours: LocalSigner, host: HostFacts
) -> None:
    attested(documents, (ours, {}), predicate_type="https://aotc.dev/certificate/v1")
    certificate = documents.envelopes[0]
    documents.manifest["version"] = "9.9.9"
    attested(documents, (ours, {}))
    documents.envelopes.append(certificate)
    assert codes(put_together(documents), policy_for(ours), host) == ["AOTC-E305"]
