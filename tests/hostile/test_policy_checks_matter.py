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
    blob_roles,
    engine_rule,
    missing_signatures,
    optional_rules,
    policy_reader,
    policy_rules,
    provenance_rules,
    public_keys,
    root_signatures,
    signature_timestamps,
    sigstore_identities,
    timestamp_authorities,
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
from .tampering import (
    ACCEPTED,
    code_of,
    policy_for,
    put_together,
    root_digest,
    second_target,
    signed,
)
from .weakening import Arms, Attack, Check, codes_in, shows_that_it_matters

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
    arms.documents.manifest["format_version"] = "1.4"
    policy = policy_for(arms.ours, numerics="ieee")
    return code_of(signed(arms.documents, arms.ours), policy, arms.host)


FUTURE = LAST
CLOCK = 'key.state(moment.at) == "valid"'
BLOBS = "rules.check_revoked_blobs(roles, policy)"
BUILDS = "provenance.check_builds(signed.vouchers, policy, where, signed.now)"
ROLES = [
    ("root", '{root_digest: "root index"}', "{}"),
    ("attestation", 'dict.fromkeys(attested, "attestation")', "{}"),
    ("image", "roles[sha256(canonical.encode(image))] =", "_ ="),
    ("manifest", "roles[image.config.digest] =", "_ ="),
]

RULES = [
    Check(verify_bundle.frame, ("raise_if(rules.check_limits(source, policy, unread))", "pass"),
          under(limits=SizeLimits(blobs=1)), "AOTC-E320"),
    Check(verify_bundle.collect,
          ("raise_if(rules.check_revoked_root(framed.root_digest, policy, source.name))", "pass"),
          a_revoked_root, "AOTC-E313"),
    Check(verify_bundle.check_policy, (BLOBS, "()"), revoked_blob("executable"), "AOTC-E314"),
    Check(verify_bundle.check_policy, (BUILDS, "()"),
          under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
    Check(verify_bundle.judge, ("rules.check_runtime(facts, policy, engines)", "()"),
          under(accepts=Accepts(aotc_runtime=("0.0.0",))), "AOTC-E318"),
    Check(verify_bundle.judge, ("if policy.engines is not None:", "if False:"),
          under(engines=("abacus",)), "AOTC-E322"),
    Check(engine_rule.accepted, ("if not _others(each, engines)", ""),
          under(engines=("abacus",)), "AOTC-E322"),
    Check(verify_bundle.judge, ("manifests = engine_rule.accepted(manifests, policy.engines)", "pass"),
          another_engines_target, "AOTC-E501"),
    Check(verify_bundle.check_policy, ("rules.check_identity(next(iter(manifests)), policy)", "()"),
          under(name="other"), "AOTC-E306"),
    Check(root_signatures.vouchers_for, (CLOCK, "True"), windowed(not_after=FIRST), "AOTC-E311"),
    Check(root_signatures.vouchers_for, (CLOCK, "True"), windowed(not_before=LAST), "AOTC-E311"),
    Check(root_signatures.vouchers_for, (CLOCK, "True"), by_a_revoked_key, "AOTC-E312"),
    Check(root_signatures.vouchers_for, (CLOCK, "True"), an_expired_report, "AOTC-E311", "AOTC-E305"),
    Check(missing_signatures.reasons, ("if idle:", "if False:"), by_a_revoked_key, "AOTC-E312",
          "AOTC-E304"),
    Check(root_signatures.vouchers_for, ("statement.predicateType == PROVENANCE_TYPE", "True"),
          a_certificate_instead, "AOTC-E304"),
    Check(public_keys.PublicKey.state, ("self.revoked or", "False or"), by_a_revoked_key, "AOTC-E312"),
    Check(public_keys.PublicKey.state, ("now < self.not_before.timestamp()", "False"),
          windowed(not_before=LAST), "AOTC-E311"),
    Check(public_keys.PublicKey.state, ("now > self.not_after.timestamp()", "False"),
          windowed(not_after=FIRST), "AOTC-E311"),
    Check(policy_reader._distinct, ("not_before=stated.not_before", "not_before=None"),
          windowed(not_before=LAST), "AOTC-E311"),
    Check(policy_reader._distinct, ("not_after=stated.not_after", "not_after=None"),
          windowed(not_after=FIRST), "AOTC-E311"),
    Check(policy_reader._distinct, ("policy.revoked.since.get(key.id)", "None"), since(FIRST), "AOTC-E312"),
    Check(public_keys.PublicKey.state, ("now >= since.timestamp()", "False"), since(FIRST), "AOTC-E312"),
    Check(public_keys.PublicKey.state, ("now >= since.timestamp()", "True"), since(LAST), ACCEPTED,
          "AOTC-E312"),
    Check(policy_reader._distinct, ("revoked=key.id in policy.revoked.keys", "revoked=False"),
          by_a_revoked_key, "AOTC-E312"),
    *(Check(policy_reader._distinct, ("_role(other) != _role(key)", "False"), twice(**stated), "AOTC-E309")
      for stated in ({"not_after": LAST}, {"not_before": FIRST}, {"holder": "x"})),
    *(Check(policy_reader._role, (f"key.{field}", "None"), twice(**{field: value}), "AOTC-E309")
      for field, value in (("not_before", FIRST), ("not_after", LAST), ("holder", "x"))),
    Check(policy_reader._role, ("key.builders", "None"), twice(builders=(BUILDER,)), "AOTC-E309"),
    Check(policy_reader._check_fields, ('table == "certifiers"', "False"), a_certifier_with_a_role,
          "AOTC-E309"),
    Check(policy_reader._check_fields, ("not any(policy.speakers())", "False"),
          under_keys(builders=()), "AOTC-E309", "AOTC-E323"),
    Check(policy_reader._distinct, ("stated.holder or key.id", "key.id"), one_holder_twice, "AOTC-E304"),
    Check(policy_reader._distinct, ("builders=stated.builders", "builders=None"),
          spoken_for(a_build()), ACCEPTED, "AOTC-E323"),
    Check(provenance_rules.check_builds, ("yield from _check_speaker(provenance, voucher)", "pass"),
          spoken_for(a_build(builder="https://x.org")), "AOTC-E323"),
    Check(provenance_rules._check_speaker, ("builder not in voucher.builders", "False"),
          spoken_for(a_build(builder="https://x.org")), "AOTC-E323"),
    Check(root_signatures.builders_of, ("not policy.binds_builders()", "True"),
          spoken_for(a_build(builder="https://x.org")), "AOTC-E323"),
    Check(TrustPolicy.asks_about_builds, ("or self.binds_builders()", ""),
          spoken_for(a_build(builder="https://x.org")), "AOTC-E323"),
    Check(TrustPolicy.binds_builders, ("builders is not None", "False"),
          spoken_for(ENDORSEMENT), "AOTC-E316"),
    Check(provenance_rules.check_builds,
          ("yield from _check_clock(provenance, voucher.where, now)", "pass"),
          built(a_build(finished=FUTURE), minimum_build_time=NOW), "AOTC-E315"),
    Check(provenance_rules._check_clock, ("finished.timestamp() > now + CLOCKS_DIFFER", "False"),
          built(a_build(finished=FUTURE), accepts=Accepts(builders=(BUILDER,))), "AOTC-E315"),
    Check(policy_reader._check_fields, ("key.not_before > key.not_after", "False"),
          windowed(not_before=LAST, not_after=FIRST), "AOTC-E309", "AOTC-E311"),
    Check(policy_rules.check_revoked_root, ("root_digest in policy.revoked.roots", "False"),
          a_revoked_root, "AOTC-E313"),
    Check(policy_rules.check_revoked_blobs, ("digest in roles", "False"), revoked_blob("weights"),
          "AOTC-E314"),
    *(Check(blob_roles.roles_by_digest, (old, new), revoked_blob(kind), "AOTC-E314")
      for kind, old, new in ROLES),
    Check(blob_roles.roles_by_digest, ("in _layers(manifests[target])", "in ()"),
          revoked_blob("weights"), "AOTC-E314"),
    *(Check(blob_roles._layers, (f"yield {what}.digest", "yield None"), revoked_blob(kind),
            "AOTC-E314")
      for kind, what in (("weights", "ref"), ("module", "profile.module"),
                         ("fixture", "profile.fixture"), ("executable", "profile.executable"))),
    Check(policy_rules.check_fallbacks, ("known.index(policy_) <= furthest", "True"), falling_back,
          "AOTC-E319"),
    Check(verify_bundle.check_policy, ("rules.check_numerics(manifests, policy)", "()"),
          stating_finite_numbers, "AOTC-E336"),
    Check(optional_rules.check_numerics, ("entry_point.numerics is not UNSET", "False"),
          stating_finite_numbers, "AOTC-E336"),
    Check(optional_rules.check_runtime, ("running not in accepted", "False"),
          under(accepts=Accepts(aotc_runtime=("0.0.0",))), "AOTC-E318"),
    *(Check(optional_rules.check_limits, (f"limits.{name},", "None,"),
            under(limits=SizeLimits(**{name: 1})),
            "AOTC-E320")
      for name in ("blobs", "bundle_bytes", "blob_bytes")),
    Check(optional_rules.check_limits, ("found > limit", "False"), under(limits=SizeLimits(blobs=1)),
          "AOTC-E320"),
    *(Check(TrustPolicy.asks_about_builds, (field, "None"), attack, code)
      for field, attack, code in (
          ("self.minimum_build_time", under(minimum_build_time=NOW + DAY), "AOTC-E315"),
          ("accepts.builders", under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
          ("accepts.sources", under(accepts=Accepts(sources=(OTHER,))), "AOTC-E317"))),
    Check(provenance_rules._stated, ("policy.minimum_build_time is not None", "False"),
          under(minimum_build_time=NOW + DAY), "AOTC-E315"),
    Check(provenance_rules._stated, ("policy.accepts.builders is not None", "False"),
          under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
    Check(provenance_rules._stated, ("policy.accepts.sources is not None", "False"),
          under(accepts=Accepts(sources=(OTHER,))), "AOTC-E317"),
    Check(provenance_rules._check_time, ("finished < minimum", "False"),
          under(minimum_build_time=NOW + DAY), "AOTC-E315"),
    Check(provenance_rules._check_time, ("finished is None or", "finished and"),
          built(a_build(finished=None), minimum_build_time=NOW), "AOTC-E315"),
    Check(provenance_rules._check_builder, ("found not in accepted", "False"),
          under(accepts=Accepts(builders=("x",))), "AOTC-E316"),
    Check(provenance_rules._check_sources, ("not accepted.intersection(digests)", "False"),
          under(accepts=Accepts(sources=(OTHER,))), "AOTC-E317"),
    Check(provenance_rules._check_sources, ("not sources", "False"),
          built(a_build(sources=()), accepts=Accepts(sources=(SOURCE,))), "AOTC-E317"),
    Check(provenance_rules.check_builds, ("not builds", "False"),
          built(ENDORSEMENT, accepts=Accepts(builders=(BUILDER,))), "AOTC-E316"),
    Check(provenance_rules.check_builds, ("in builds", "in builds[-1:]"), a_disputed_build,
          "AOTC-E316"),
]  # fmt: skip


@pytest.mark.parametrize("check", RULES, ids=[check.label for check in RULES])
def test_a_refused_bundle_gets_further_exactly_when_its_rule_is_removed(
    check: Check, arms: Arms, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows_that_it_matters(check, arms, monkeypatch)


def test_every_code_of_the_rules_has_its_check_here() -> None:
    of_identity = {"AOTC-E306", "AOTC-E307"}  # test_trust_checks_matter.py
    found = codes_in(engine_rule, provenance_rules, policy_rules) - of_identity | {
        "AOTC-E311",
        "AOTC-E312",
    }
    assert found <= {check.code for check in RULES}


def test_every_field_of_a_policy_is_asked_for_by_a_rule() -> None:
    """A field that decides nothing would promise what nobody keeps."""
    source = "".join(
        Path(module.__file__ or "").read_text("utf-8")
        for module in (
            timestamp_authorities,
            engine_rule,
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
