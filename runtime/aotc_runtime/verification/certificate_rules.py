"""May another release run this target? What the policy's certifiers say: verification step 8.

Imported only where a version of jaxlib, or of another engine's package, runs that a bundle does not
accept by itself, under a policy that names certifiers. A certificate counts if its key does, if it
is about exactly this root, target and release, if it passed, and if it ran exactly the fixtures and
executables that the manifest names. Where several count, one that did not pass outweighs all that
did.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import BundleFormatError, Finding, finding, raise_if
from aotc_runtime.formats import in_toto
from aotc_runtime.formats.certificate_predicate import PASSED, Certificate
from aotc_runtime.formats.in_toto import SignedPayload, Statement, open_envelope
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.certified_releases import Certified, MeasuredDifference, Release, Ruling
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.engine_releases import built_with
from aotc_runtime.verification.policy_reader import PolicyFile, distinct_keys
from aotc_runtime.verification.public_keys import PublicKey, Trials
from aotc_runtime.verification.root_signatures import match_signatures


def certifier_keys(policy: TrustPolicy, where: str = "trust policy") -> dict[str, PublicKey]:
    """Return the certifiers' keys by id, of a policy whose keys `policy_keys` has checked.

    Raises TrustError (AOTC-E309, E310), with everything that is wrong.
    """
    findings: list[Finding] = []
    distinct = distinct_keys(policy, "certifiers", PolicyFile(where), findings)
    raise_if(findings)
    return distinct


class Statements(Struct, frozen=True):
    """Certificates about a root, as far as they can be read.

    `by_key` has certificates with the ids of the keys that count, the digest of the envelope, and
    its name in messages. `beside` has other statements they signed, in words; `idle` has findings
    for keys that do not count.
    """

    by_key: tuple[tuple[Certificate, frozenset[str], str, str], ...]
    beside: tuple[str, ...]
    idle: tuple[Finding, ...]


def ruling(
    manifest: BundleManifest,
    release: Release,
    envelopes: Iterable[bytes],
    root_digest: str,
    policy: TrustPolicy,
    where: str,
    now: float,
) -> Ruling:
    """Return the result of certificates for a release that a target does not accept itself.

    `now` is in seconds since the epoch. The ruling has a certificate, or one finding or more:
    AOTC-E411 keys that do not count, E412 none is about this, E413 it did not pass, E414 it ran
    something else. Raises BundleFormatError for a malformed envelope (AOTC-E106, E107, E119),
    TrustError for certifiers that are no keys (AOTC-E309, E310).
    """
    keys = certifier_keys(policy)
    found = read_statements(envelopes, root_digest, keys, where, now)
    target = manifest.target.name
    about = [s for s in found.by_key if (s[0].target, s[0].release) == (target, release)]
    against = [
        reason
        for certificate, _, _, place in about
        for reason in (
            *_check_passed(certificate, place),
            *_check_runs(certificate, manifest, place),
        )
    ]
    if against:
        return Ruling(None, tuple(against))
    if about:
        certificate, signers, digest, _ = max(about, key=lambda s: (s[0].certifiedOn, s[2]))
        return Ruling(_make_certified(certificate, signers, digest, keys, manifest), ())
    others = [f"{s[0].release} for {s[0].target}" for s in found.by_key]
    return Ruling(
        None,
        (
            *found.idle,
            finding(
                "AOTC-E412",
                f"{where} {target}",
                ", ".join(sorted({*others, *found.beside})) or "no certificates",
                expected=f"a certificate for {release}, by one of: "
                + ", ".join(key.label for key in keys.values()),
            ),
        ),
    )


def read_statements(
    envelopes: Iterable[bytes],
    root_digest: str,
    keys: Mapping[str, PublicKey],
    where: str,
    now: float,
) -> Statements:
    """Return everything that certifiers signed and attached to this root.

    `keys` are the policy's certifiers, by id; `now` is in seconds since the epoch. Raises
    BundleFormatError for a malformed envelope (AOTC-E106, E107, E119).
    """
    by_key = []
    beside: list[str] = []
    idle: list[Finding] = []
    trials = Trials()
    for number, data in enumerate(envelopes, start=1):
        signed = open_envelope(data, f"{where} attestation {number}")
        signers = {maker.id for _, maker in match_signatures(signed, keys, trials) if maker}
        counted = frozenset(id for id in signers if keys[id].state(now) == "valid")
        if not counted:
            idle += [_idle(signed, keys[id], now) for id in sorted(signers)]
            continue
        # Only now is the payload worth parsing: a key that counts stands behind it.
        read = _certificate(signed, root_digest)
        if isinstance(read, Certificate):
            by_key.append((read, counted, sha256(data), signed.where))
        elif read:
            beside.append(read)
    return Statements(tuple(by_key), tuple(beside), tuple(idle))


def _certificate(signed: SignedPayload, root_digest: str) -> Certificate | str:
    """Return the certificate about exactly this root, or a description of another document."""
    if signed.payload_type != in_toto.PAYLOAD_TYPE:
        return f"a payload of type {signed.payload_type}"
    try:
        statement = decode_foreign(signed.payload, Statement, where=signed.where)
        types = (statement.type, statement.predicateType)
        if types != (in_toto.STATEMENT_TYPE, in_toto.CERTIFICATE_TYPE):
            return ""  # a key may have both roles, and its other statements are evaluated at step 4
        subjects = [subject.digest for subject in statement.subject]
        if subjects != [{"sha256": root_digest.removeprefix("sha256:")}]:
            return "one about " + (", ".join(map(str, subjects)) or "nothing")
        return decode_foreign(bytes(statement.predicate), Certificate, where=signed.where)
    except BundleFormatError as error:
        return f"one that cannot be read: {error.findings[0].found}"


def _check_passed(certificate: Certificate, where: str) -> Iterator[Finding]:
    beyond = [run.label for run in certificate.fixtures if not run.withinTolerance]
    if certificate.outcome != PASSED or beyond:
        detail = certificate.detail or f"beyond tolerance in {', '.join(beyond)}"
        found = f"{certificate.release} on {certificate.target}, {certificate.outcome}: {detail}"
        yield finding("AOTC-E413", where, found)


def _check_runs(
    certificate: Certificate, manifest: BundleManifest, where: str
) -> Iterator[Finding]:
    """Exactly the fixtures and executables of the manifest, so that none was left out."""
    wanted = {*_runs_of(manifest)}
    found = [(run.label, run.executable, run.fixture) for run in certificate.fixtures]
    if certificate.outcome == PASSED and (len(found) != len(wanted) or {*found} != wanted):
        differing = sorted({*found} ^ wanted) or sorted(found)
        shown = f"{len({*found} & wanted)} of the bundle's fixtures, {len(found)} in all"
        expected = f"the bundle's {len(wanted)} fixtures and executables"
        yield finding("AOTC-E414", f"{where} {differing[0][0]}", shown, expected=expected)


def _runs_of(manifest: BundleManifest) -> Iterable[tuple[str, str, str]]:
    return (
        (label(name, profile.sizes), profile.executable.digest, profile.fixture.digest)
        for name, entry_point in manifest.entry_points.items()
        for profile in entry_point.profiles
    )


def _idle(signed: SignedPayload, key: PublicKey, now: float) -> Finding:
    return finding("AOTC-E411", f"{signed.where} key {key.label}", key.state(now))


def _make_certified(
    certificate: Certificate,
    signers: Iterable[str],
    digest: str,
    keys: Mapping[str, PublicKey],
    manifest: BundleManifest,
) -> Certified:
    ids = tuple(sorted(signers))
    return Certified(
        release=certificate.release,
        built_with=built_with(manifest),
        digest=digest,
        keys=ids,
        names=tuple(keys[id].name for id in ids),
        certified_on=certificate.certifiedOn.isoformat().replace("+00:00", "Z"),
        cpu=certificate.surroundings.cpu,
        differences=tuple(
            MeasuredDifference(run.label, run.maxAbs, run.maxRel, run.ulpMax)
            for run in certificate.fixtures
        ),
    )
