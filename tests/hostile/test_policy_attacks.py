"""Every rule of a policy, removed: the bundle that it refuses gets further."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle.sign.signer import LocalSigner
from aotc_runtime.base.errors import raise_if
from aotc_runtime.loader import verify_report as report
from aotc_runtime.schema.trust_policy import (
    Accepts,
    Identity,
    Revoked,
    SizeLimits,
    TimestampAuthority,
    TrustedKey,
    TrustPolicy,
)
from aotc_runtime.verification import (
    missing_signatures,
    optional_rules,
    policy_reader,
    policy_rules,
    provenance_rules,
    public_keys,
    root_signatures,
    signature_timestamps,
    sigstore_identities,
    verify_bundle,
)

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
from .refused_attacks import Arms, Attack, Refused, codes_in, outcome
from .tampering import (
    ACCEPTED,
    code_of,
    policy_for,
    put_together,
    root_digest,
    second_target,
    signed,
)

OTHER = "sha256:" + "0" * 64


def under(**policy: Any) -> Attack:
    """A good bundle under a policy that refuses it."""

    def attack(arms: Arms) -> str:
        built = attested(arms.documents, (arms.ours, a_build()))
        return code_of(built, policy_for(arms.ours, **policy), arms.host)

    return attack


def built(build: dict[str, Any], **policy: Any) -> Attack:
    """A bundle about which this is said."""

    def attack(arms: Arms) -> str:
        bundle = attested(arms.documents, (arms.ours, build))
        return code_of(bundle, policy_for(arms.ours, **policy), arms.host)

    return attack


def windowed(**window: datetime) -> Attack:
    """A signature by a key whose window is another, checked by this host's clock."""

    def attack(arms: Arms) -> str:
        policy = TrustPolicy(schema=1, name="digits", keys=(key_of(arms.ours, **window),))
        return code_of(signed(arms.documents, arms.ours), policy, arms.host)

    return attack


def by_a_revoked_key(arms: Arms) -> str:
    policy = policy_for(arms.ours, revoked=Revoked(keys=(arms.ours.key_id,)))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def since(moment: datetime) -> Attack:
    """The key is revoked from then on, and nobody says when it signed."""

    def attack(arms: Arms) -> str:
        policy = policy_for(arms.ours, revoked=Revoked(since={arms.ours.key_id: moment}))
        return code_of(signed(arms.documents, arms.ours), policy, arms.host)

    return attack


def a_revoked_root(arms: Arms) -> str:
    policy = policy_for(arms.ours, revoked=Revoked(roots=(root_digest(arms.documents),)))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def revoked_blob(kind: str) -> Attack:
    def attack(arms: Arms) -> str:
        bundle = signed(arms.documents, arms.ours)
        image, profile = arms.documents.image, arms.documents.profile
        digest = {
            "image": arms.documents.root["manifests"][0]["digest"],
            "manifest": image["config"]["digest"],
            "root": root_digest(arms.documents),
            "weights": arms.documents.manifest["weights"]["params"]["blobs"][0]["digest"],
            "attestation": arms.documents.index["manifests"][1]["digest"],
            **{kind: profile[kind]["digest"] for kind in ("module", "executable", "fixture")},
        }[kind]
        policy = policy_for(arms.ours, revoked=Revoked(blobs=(digest,)))
        return code_of(bundle, policy, arms.host)

    return attack


def a_disputed_build(arms: Arms) -> str:
    """The good account comes last, and the other from a key that is trusted as well."""
    bad, good = (arms.stranger, a_build(builder="https://x.org")), (arms.ours, a_build())
    policy = policy_for(arms.ours, arms.stranger, accepts=Accepts(builders=(BUILDER,)))
    return code_of(attested(arms.documents, bad, good), policy, arms.host)


def falling_back(arms: Arms) -> str:
    policy = policy_for(arms.ours, furthest_fallback="pad")
    raise_if(policy_rules.check_fallbacks([declaring(arms.documents, "split")], policy))
    return ACCEPTED


def another_engines_target(arms: Arms) -> str:
    """The target that this host runs has an engine that the policy does not accept."""
    second_target(arms.documents, "beads")
    other = arms.documents.targets[-1].manifest
    other["target"] |= {"platform": "abacus"}
    needed = {"kinds": ["beads"], "memory_bytes": 0, "plugin": "abacus", "accepts_plugin": ["1.0"]}
    other["requires"] |= {"platform": "abacus", "isa": [], "device": needed}
    policy = policy_for(arms.ours, engines=("abacus",))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def under_keys(**stated: Any) -> Attack:
    """A good bundle under a policy whose one key is stated like this."""

    def attack(arms: Arms) -> str:
        policy = TrustPolicy(schema=1, name="digits", keys=(key_of(arms.ours, **stated),))
        return code_of(attested(arms.documents, (arms.ours, a_build())), policy, arms.host)

    return attack


def twice(**stated: Any) -> Attack:
    """One key, listed plainly and like this."""

    def attack(arms: Arms) -> str:
        listed = (key_of(arms.ours, **stated), key_of(arms.ours))
        policy = TrustPolicy(schema=1, name="digits", keys=listed)
        return code_of(attested(arms.documents, (arms.ours, a_build())), policy, arms.host)

    return attack


def a_certifier_with_a_role(arms: Arms) -> str:
    policy = policy_for(arms.ours, certifiers=(key_of(arms.stranger, builders=()),))
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


def one_holder_twice(arms: Arms) -> str:
    """Two keys of CI have signed, and nobody else."""
    other = LocalSigner.ephemeral()
    listed = (
        key_of(arms.ours, holder="ci"),
        key_of(arms.stranger, holder="ci"),
        key_of(other, holder="release"),
    )
    policy = TrustPolicy(schema=1, name="digits", keys=listed, threshold=2)
    return code_of(signed(arms.documents, arms.ours, arms.stranger), policy, arms.host)


def spoken_for(build: dict[str, Any]) -> Attack:
    """A build that a key describes which may speak for one builder."""

    def attack(arms: Arms) -> str:
        policy = TrustPolicy(
            schema=1, name="digits", keys=(key_of(arms.ours, builders=(BUILDER,)),)
        )
        return code_of(attested(arms.documents, (arms.ours, build)), policy, arms.host)

    return attack


def a_certificate_instead(arms: Arms) -> str:
    known = "https://aotc.dev/certificate/v1"
    bundle = attested(arms.documents, (arms.ours, {}), predicate_type=known)
    return code_of(bundle, policy_for(arms.ours), arms.host)


def an_expired_report(arms: Arms) -> str:
    """What a key signed that is valid no more is no business of ours, whatever it says."""
    attested(arms.documents, (arms.stranger, {}), predicate_type="unheard of")
    report = arms.documents.envelopes[0]
    attested(arms.documents, (arms.ours, {}))
    arms.documents.envelopes.append(report)
    listed = (key_of(arms.ours), key_of(arms.stranger, not_after=datetime.now(UTC) - DAY))
    policy = TrustPolicy(schema=1, name="digits", keys=listed, threshold=2)
    return code_of(put_together(arms.documents), policy, arms.host)


FIRST, LAST = datetime(1999, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)


def stating_finite_numbers(arms: Arms) -> str:
    arms.documents.manifest["entry_points"]["predict"]["numerics"] = "finite"
    policy = policy_for(arms.ours, numerics="ieee")
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


FUTURE = LAST
BLOBS = ("root", "attestation", "image", "manifest", "weights", "module", "fixture", "executable")

RULES = [
    Refused(under(limits=SizeLimits(blobs=1)), "AOTC-E320"),
    Refused(a_revoked_root, "AOTC-E313"),
    Refused(under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
    Refused(under(accepts=Accepts(aotc_runtime=("0.0.0",))), "AOTC-E318"),
    Refused(under(engines=("abacus",)), "AOTC-E322"),
    Refused(another_engines_target, "AOTC-E501"),
    Refused(under(name="other"), "AOTC-E306"),
    Refused(windowed(not_after=FIRST), "AOTC-E311"),
    Refused(windowed(not_before=LAST), "AOTC-E311"),
    Refused(by_a_revoked_key, "AOTC-E312"),
    Refused(an_expired_report, "AOTC-E311"),
    Refused(a_certificate_instead, "AOTC-E304"),
    Refused(since(FIRST), "AOTC-E312"),
    Refused(since(LAST), ACCEPTED),
    *(
        Refused(twice(**stated), "AOTC-E309")
        for stated in ({"not_after": LAST}, {"not_before": FIRST}, {"holder": "x"})
    ),
    Refused(twice(builders=(BUILDER,)), "AOTC-E309"),
    Refused(a_certifier_with_a_role, "AOTC-E309"),
    Refused(under_keys(builders=()), "AOTC-E309"),
    Refused(one_holder_twice, "AOTC-E304"),
    Refused(spoken_for(a_build()), ACCEPTED),
    Refused(spoken_for(a_build(builder="https://x.org")), "AOTC-E323"),
    Refused(spoken_for(ENDORSEMENT), "AOTC-E316"),
    Refused(built(a_build(finished=FUTURE), minimum_build_time=NOW), "AOTC-E315"),
    Refused(built(a_build(finished=FUTURE), accepts=Accepts(builders=(BUILDER,))), "AOTC-E315"),
    Refused(windowed(not_before=LAST, not_after=FIRST), "AOTC-E309"),
    *(Refused(revoked_blob(kind), "AOTC-E314") for kind in BLOBS),
    Refused(falling_back, "AOTC-E319"),
    Refused(stating_finite_numbers, "AOTC-E336"),
    *(
        Refused(under(limits=SizeLimits(**{name: 1})), "AOTC-E320")
        for name in ("blobs", "bundle_bytes", "blob_bytes")
    ),
    Refused(under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
    Refused(under(minimum_build_time=NOW + DAY), "AOTC-E315"),
    Refused(under(accepts=Accepts(sources=(OTHER,))), "AOTC-E317"),
    Refused(built(a_build(finished=None), minimum_build_time=NOW), "AOTC-E315"),
    Refused(built(a_build(sources=()), accepts=Accepts(sources=(SOURCE,))), "AOTC-E317"),
    Refused(built(ENDORSEMENT, accepts=Accepts(builders=(BUILDER,))), "AOTC-E316"),
    Refused(a_disputed_build, "AOTC-E316"),
]


@pytest.mark.parametrize("case", RULES, ids=[case.label for case in RULES])
def test_a_bundle_is_refused_by_its_rule(case: Refused, arms: Arms) -> None:
    assert outcome(case.attack, arms) == case.code


def test_every_code_of_the_rules_has_its_check_here() -> None:
    of_identity = {"AOTC-E306", "AOTC-E307"}  # test_trust_attacks.py
    beside = {"AOTC-E311", "AOTC-E312", "AOTC-E314", "AOTC-E322"}
    found = codes_in(provenance_rules, policy_rules) - of_identity | beside
    assert found <= {case.code for case in RULES}


def test_every_field_of_a_policy_is_asked_for_by_a_rule() -> None:
    """A field that decides nothing would promise what nobody keeps."""
    source = "".join(
        Path(module.__file__ or "").read_text("utf-8")
        for module in (
            sigstore_identities,
            public_keys,
            provenance_rules,
            report,
            policy_rules,
            root_signatures,
            optional_rules,
            signature_timestamps,
            policy_reader,
            missing_signatures,
            verify_bundle,
        )
    )
    tables = (TrustPolicy, TrustedKey, Identity, TimestampAuthority, Revoked, Accepts, SizeLimits)
    for table in tables:
        for field in table.__struct_fields__:
            assert re.search(rf"\.{field}\b", source) or field == "schema", field
