"""Signatures over a root digest: which of a policy's keys vouch for it, and with what statement."""

import itertools
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from aotc_runtime.base.canonical_json import decode_foreign
from aotc_runtime.base.errors import TrustError, refusal
from aotc_runtime.formats import in_toto
from aotc_runtime.formats.in_toto import PROVENANCE_TYPE, SignedPayload, Statement, open_envelope
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.verification.policy_reader import policy_keys
from aotc_runtime.verification.public_keys import PublicKey, SigningTime, Trials


class AcceptedProvenance(Struct, frozen=True):
    """Provenance that counts, signed by keys with these ids; `where` names it in messages.

    `predicate` is JSON, not interpreted yet. `builders` are ids of those that these keys may
    describe; None for all of them.
    """

    signers: frozenset[str]
    predicate: bytes
    where: str
    builders: frozenset[str] | None


def signers_of(provenance: Iterable[AcceptedProvenance]) -> tuple[str, ...]:
    """Return the ids of keys with accepted signatures, each once, sorted."""
    return tuple(sorted({signer for each in provenance for signer in each.signers}))


def match_signatures(
    signed: SignedPayload, keys: Mapping[str, PublicKey], trials: Trials
) -> Iterator[tuple[str, PublicKey | None]]:
    """Yield each signature's claimed key id, and the key that made it, or None.

    `keys` are by id; `trials` bounds the tries. The verified message is DSSE's pre-authentication
    encoding of payload and type. A key id is an unsigned hint: its key is tried first, and an
    unknown or missing id excludes no key. Raises BundleFormatError (AOTC-E119).
    """
    message = in_toto.pre_authentication_encoding(signed.payload_type, signed.payload)
    for claimed, signature in signed.signatures:
        named = keys.get(claimed)
        others = (key for key in keys.values() if key is not named)
        candidates = others if named is None else itertools.chain((named,), others)
        made = (key for key in candidates if trials.verify(key, signature, message, signed.where))
        yield claimed, next(made, None)


def accepted_provenance(
    envelopes: Iterable[bytes], root_digest: str, policy: TrustPolicy, where: str, now: float
) -> tuple[AcceptedProvenance, ...]:
    """Return the provenance that the policy's keys signed: verification steps 3 and 4.

    The keys belong to at least as many distinct holders as the threshold. `now` is in seconds since
    the epoch.

    Raises BundleFormatError for a malformed envelope, TrustError: AOTC-E301 unsigned, E302 signed
    by none of the policy's keys, E303 a signature that does not verify, E304 too few keys,
    E305 a statement about something else, E311 and E312 too few because of expired or revoked ones.
    """
    keys = policy_keys(policy)
    trials = Trials()
    number = 0
    provenance: list[AcceptedProvenance] = []
    expired: dict[str, tuple[PublicKey, SigningTime]] = {}
    other_statements: dict[str, set[str]] = {}
    unknown: set[str] = set()
    for number, data in enumerate(envelopes, start=1):
        signed = open_envelope(data, f"{where} attestation {number}")
        made = [
            (keys[id], when_signed(signed, signature, policy, trials, now))
            for id, signature in _signers(signed, keys, policy, unknown, trials)
        ]
        counted = frozenset(key.id for key, moment in made if key.state(moment.at) == "valid")
        expired |= {key.id: (key, moment) for key, moment in made if key.id not in counted}
        if not counted:
            continue
        # Only now is the payload worth parsing: a key that counts vouches for it.
        statement = _statement(signed, root_digest)
        if statement.predicateType == PROVENANCE_TYPE:
            speaks_for = builders_of((keys[id] for id in counted), policy)
            provenance.append(
                AcceptedProvenance(counted, bytes(statement.predicate), signed.where, speaks_for)
            )
        else:
            other_statements.setdefault(statement.predicateType, set()).update(counted)
    # verification step 4: k distinct holders, not k signatures and not k keys.
    found = signers_of(provenance)
    if len({keys[id].holder for id in found}) < policy.threshold:
        from aotc_runtime.verification import missing_signatures

        others = {type_: signers - {*found} for type_, signers in other_statements.items()}
        seen = missing_signatures.Seen(number, found, expired, others, unknown)
        raise TrustError(*missing_signatures.reasons(seen, keys, policy.threshold, where))
    return tuple(provenance)


def when_signed(
    signed: SignedPayload, signature: bytes, policy: TrustPolicy, trials: Trials, now: float
) -> SigningTime:
    """Return when a signature was made, by one of the policy's authorities: verification step 4.

    Without a timestamp it is the time of checking. Raises TrustError (AOTC-E324, E325),
    BundleFormatError.
    """
    token = signed.timestamps.get(signature)
    if token is None or not policy.timestamp_authorities:
        return SigningTime(now)
    # Imported where a policy asks for it, and there is one.
    from aotc_runtime.verification import signature_timestamps as timestamps

    return timestamps.signing_time_of(token, signature, policy, trials, signed.where, now)


def builders_of(keys: Iterable[PublicKey], policy: TrustPolicy) -> frozenset[str] | None:
    """Return the builder ids whose builds these keys may describe; None for all."""
    if not policy.binds_builders():
        return None
    return frozenset(itertools.chain.from_iterable(key.builders or () for key in keys))


def _signers(
    signed: SignedPayload,
    keys: Mapping[str, PublicKey],
    policy: TrustPolicy,
    unknown: set[str],
    trials: Trials,
) -> list[tuple[str, bytes]]:
    """Return ids of keys and identities whose signature verifies, each with the signature.

    Unknown key ids are added to `unknown`. A signature with a trusted key's id that this key did
    not make is rejected.
    """
    found = []
    tried = zip(signed.signatures, match_signatures(signed, keys, trials), strict=True)
    for (_, signature), (claimed, signer) in tried:
        named = keys.get(claimed)
        if named is not None and signer is not named:
            raise refusal("AOTC-E303", signed.where, f"key {named.name or named.id[:16]}")
        if signer is not None:
            found.append((signer.id, signature))
        elif policy.identities and signature in signed.materials:
            # Imported where a policy asks for it, and there is some.
            from aotc_runtime.verification import sigstore_identities

            found += sigstore_identities.match_signatures(
                signed, signature, policy, unknown, trials
            )
        else:
            unknown.add(claimed[:16] or "one without a key id")
    return found


def _statement(signed: SignedPayload, root_digest: str) -> Statement:
    """Return the signed statement, which is about exactly this root.

    A trusted key may also sign a test report or a warning about a bundle: only provenance vouches,
    and what is not known to vouch for nothing is refused.
    """
    unknown = "unknown-statement-type"
    if signed.payload_type != in_toto.PAYLOAD_TYPE:
        found, expected = signed.payload_type, in_toto.PAYLOAD_TYPE
        raise refusal("AOTC-E305", signed.where, found, cause=unknown, expected=expected)
    statement = decode_foreign(signed.payload, Statement, where=signed.where)
    known = (
        statement.predicateType == PROVENANCE_TYPE
        or statement.predicateType in in_toto.SILENT_TYPES
    )
    if statement.type != in_toto.STATEMENT_TYPE or not known:
        found = f"{statement.type} with {statement.predicateType}"
        raise refusal("AOTC-E305", signed.where, found, cause=unknown, expected=PROVENANCE_TYPE)
    subjects = [subject.digest for subject in statement.subject]
    if subjects != [{"sha256": root_digest.removeprefix("sha256:")}]:
        found = ", ".join(str(subject) for subject in subjects) or "no subject"
        raise refusal("AOTC-E305", signed.where, found, expected=root_digest)
    return statement
