"""`aotc sign`: adds a signature to a finished bundle."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from aotc.base.errors import finding, raise_if, refusal
from aotc.base.stages import Attestation
from aotc.bundle.read.opened_bundle import open_valid
from aotc.bundle.sign.attestation import attest, is_signed_by
from aotc.bundle.sign.build_provenance import endorsement
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.added_attestations import with_attestations
from aotc.bundle.write.atomic_files import tidy
from aotc.bundle.write.hashed_weights import hash_rest, sizes_of
from aotc_runtime.base.errors import BundleFormatError, Finding
from aotc_runtime.formats.in_toto import SignedPayload, open_envelope
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import OnProgress, ignore_progress, open_streamed
from aotc_runtime.verification.missing_signatures import holder_labels
from aotc_runtime.verification.policy_reader import policy_keys
from aotc_runtime.verification.public_keys import PublicKey, load_public_key


@dataclass(frozen=True, slots=True)
class Endorsed:
    """A signed bundle.

    `added` is false if this key's attestation was there. `name` and `version` are the bundle's;
    `earlier` has the ids of earlier signers that the policy counts, or without one the claimed ids.
    """

    attestation: Attestation
    added: bool
    name: str
    version: str
    earlier: tuple[str, ...]


def without_timestamp(envelope: bytes, key_id: str) -> bytes:
    """Return the envelope as it is, where no timestamp is asked for."""
    return envelope


def endorse(
    path: Path,
    signer: Signer,
    policy: TrustPolicy | None = None,
    timestamp: Callable[[bytes, str], bytes] = without_timestamp,
    on_progress: OnProgress = ignore_progress,
) -> Endorsed:
    """Add this signer's attestation to a bundle.

    All digests are checked before the signed bundle replaces the other: those of weights as they
    were written. A bundle that this key has signed the same way before is left unchanged.

    Args:
        path: The bundle.
        signer: The key that signs.
        policy: Has to accept earlier signatures, except for its rules on the host, as if this
            signature were there; None accepts any bundle, signed or not.
        timestamp: Adds a timestamp to an envelope that this key, by its id, has signed, unless it
            has one.
        on_progress: Called with the bytes that were copied and hashed.

    Raises:
        BundleFormatError, IntegrityError, TrustError: The bundle is not acceptable.
        UsageError: AOTC-E003, E052 targets are absent, E058 too many attestations, and the signer's
            errors.
    """
    tidy(path.resolve())
    source = open_streamed(path, on_progress)
    asked = policy and _without(policy, signer)
    read = open_valid(source, asked, datetime.now(UTC).timestamp(), sizes_of(source))
    earlier = read.signers if read.verified else _claimed_key_ids(read.envelopes)
    if policy is not None:
        raise_if(_check_others(policy, signer, earlier, str(path)))
    if read.contents.absent:
        # A signature of the root vouches for every target, and some cannot be looked at.
        raise refusal("AOTC-E052", str(path), "no " + ", ".join(read.contents.absent))
    attestation = attest(read.root_digest, f"{read.name}-{read.version}", endorsement(), signer)
    made = open_envelope(attestation.envelope, "attestation")
    key = load_public_key(signer.public_pem(), "", "signer")
    ours = {
        each: found for each in read.envelopes if (found := _signed_part(each, key)) is not None
    }
    # Keys in tokens sign with a new nonce each time, so that the envelopes need not be equal.
    added = not any(
        (found.payload, found.payload_type) == (made.payload, made.payload_type)
        for found in ours.values()
    )
    new = [attestation.envelope] if added else []
    stamped = {each: timestamp(each, signer.key_id) for each in [*ours, *new]}
    changed = {each for each, after in stamped.items() if each != after or each in new}
    if changed:
        envelopes = [stamped[each] for each in sorted(changed)]
        with_attestations(path, read.root_digest, envelopes, changed.__contains__, on_progress)
    else:
        hash_rest(source, read.contents, ())
    return Endorsed(attestation, added, read.name, read.version, earlier)


def _signed_part(envelope: bytes, key: PublicKey) -> SignedPayload | None:
    """Return what an envelope holds, if one of its signatures is this key's."""
    with suppress(BundleFormatError):
        found = open_envelope(envelope, "attestation")
        return found if is_signed_by(found, key) else None
    return None


def _without(policy: TrustPolicy, signer: Signer) -> TrustPolicy:
    """Return the policy for earlier signatures: if this signer counts, one fewer is needed.

    At least one is needed all the same, since the first signer has nothing to rely on.
    """
    one_fewer = policy.threshold - (signer.key_id in policy_keys(policy))
    return msgspec.structs.replace(policy, threshold=max(1, one_fewer))


def _check_others(
    policy: TrustPolicy, signer: Signer, earlier: Iterable[str], where: str
) -> Iterator[Finding]:
    """Yield AOTC-E304 unless this signature completes the policy's threshold.

    A holder's keys count once, whatever signed before.
    """
    keys = policy_keys(policy)
    if signer.key_id not in keys:
        return
    mine = keys[signer.key_id].holder
    others = {keys[id].holder for id in earlier} - {mine}
    if len(others) + 1 < policy.threshold:
        left = holder_labels(keys, {key.holder for key in keys.values()} - others - {mine})
        yield finding(
            "AOTC-E304",
            where,
            f"{len(others)} beside {keys[signer.key_id].label}; {' and '.join(left)} "
            f"{'has' if len(left) == 1 else 'have'} not signed",
            expected=f"signatures by keys of {policy.threshold - 1} other holders",
        )


def _claimed_key_ids(envelopes: Iterable[bytes]) -> tuple[str, ...]:
    """Return ids of keys that attestations claim to be signed by, each once, sorted."""
    found = set()
    for envelope in envelopes:
        with suppress(BundleFormatError):  # of other tools, and no signature for our readers
            found |= {key_id for key_id, _ in open_envelope(envelope, "attestation").signatures}
    return tuple(sorted(found))
