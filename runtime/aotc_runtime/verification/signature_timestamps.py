"""RFC 3161 timestamps over signatures: when one of a policy's authorities says that one was made.

Imported where a policy names authorities.
https://www.rfc-editor.org/rfc/rfc3161
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from cryptography import x509

from aotc_runtime.base import limits
from aotc_runtime.base.errors import AotcError, Finding, finding, refusal
from aotc_runtime.base.rendering import reason_of
from aotc_runtime.formats import in_toto
from aotc_runtime.schema.trust_policy import TimestampAuthority, TrustPolicy
from aotc_runtime.verification.public_keys import SigningTime, Trials

CLOCKS_DIFFER = 300
"""Seconds by which an authority's clock may be ahead of this host's."""

_EFFORT = 8 * limits.TRIAL_BYTES
"""Cost of one trial of an authority: half a millisecond, certificates and a signature."""

_HASHES = {
    "2.16.840.1.101.3.4.2.1": hashlib.sha256,
    "2.16.840.1.101.3.4.2.2": hashlib.sha384,
    "2.16.840.1.101.3.4.2.3": hashlib.sha512,
}


def check_authorities(policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """AOTC-E309 for each authority whose certificates are none, or stated twice."""
    for index, authority in enumerate(policy.timestamp_authorities):
        place = f"{where} timestamp_authorities[{index}] {authority.name}".rstrip()
        if bool(authority.certificates) == bool(authority.certificates_file):
            found = "both" if authority.certificates else "neither"
            expected = "exactly one of certificates and certificates_file"
            hint = "set `certificates` to PEM text, or `certificates_file` to a path"
            yield finding("AOTC-E309", place, found, expected=expected, hint=hint)
            continue
        try:
            certificates_of(authority)
        except ValueError as error:
            expected = "PEM certificates of the authority, with its root"
            hint = "ask the authority for its certificate chain"
            yield finding("AOTC-E309", place, reason_of(error), expected=expected, hint=hint)


def certificates_of(authority: TimestampAuthority) -> list[Any]:
    """Return the certificates of an authority. Raises ValueError if there are none."""
    return x509.load_pem_x509_certificates(authority.certificates.encode())


def signing_time_of(
    token: str, signature: bytes, policy: TrustPolicy, trials: Trials, where: str, now: float
) -> SigningTime:
    """Return the signing time by a timestamp, or the time of checking.

    `token` is base64, the policy's authorities have been checked, and `now` is the time of checking
    in seconds since the epoch. Raises TrustError: AOTC-E324 for a timestamp that is malformed, of
    another signature or in the future, E325 if nothing that could verify it is installed;
    BundleFormatError: AOTC-E107, E111, E119.
    """
    authorities = [
        (authority.name or f"timestamp_authorities[{index}]", certificates_of(authority))
        for index, authority in enumerate(policy.timestamp_authorities)
    ]
    if len(token) > limits.TIMESTAMP_CHARACTERS_MAX:
        expected = f"at most {limits.TIMESTAMP_CHARACTERS_MAX} characters"
        raise refusal("AOTC-E111", where, f"a timestamp of {len(token)}", expected=expected)
    answer = _decode(in_toto.decode_base64(token, where=f"{where} timestamp"), where)
    _check_imprint(answer, signature, where)
    made = answer.tst_info.gen_time.timestamp()
    if made > now + CLOCKS_DIFFER:
        found = answer.tst_info.gen_time.isoformat()
        raise refusal("AOTC-E324", where, found, cause="timestamp-is-in-the-future")
    reasons = []
    for name, certificates in authorities:
        trials.spend(_EFFORT, where)
        reason = _why_refused(answer, signature, certificates)
        if reason is None:
            return SigningTime(made, stamped=True)
        reasons.append(f"{name}: {reason}")
    said = ", ".join(reasons)
    return SigningTime(now, why=f"timestamp by no authority of the policy ({said})")


def _client() -> Any:
    try:
        import rfc3161_client
    except ImportError as error:
        raise refusal("AOTC-E325", "timestamp", str(error)) from error
    return rfc3161_client


def _decode(data: bytes, where: str) -> Any:
    client = _client()
    try:
        answer = client.decode_timestamp_response(data)
        status = answer.status
        if status == 0:
            # Parsed when they are asked for; a time may be one that Python does not have.
            answer.tst_info.message_imprint, answer.tst_info.gen_time  # noqa: B018
    except BaseException as error:
        raise _no_timestamp(where, reason_of(error)) from error
    if status != 0:
        raise _no_timestamp(where, f"a rejected request, status {status}")
    return answer


def _check_imprint(answer: Any, signature: bytes, where: str) -> None:
    """Require that a timestamp is of exactly this signature."""
    imprint = answer.tst_info.message_imprint
    algorithm = _HASHES.get(imprint.hash_algorithm.dotted_string)
    if algorithm is None:
        raise _no_timestamp(where, f"hash algorithm {imprint.hash_algorithm.dotted_string}")
    if imprint.message != algorithm(signature).digest():
        raise _no_timestamp(where, "a timestamp of another signature")


def _why_refused(answer: Any, signature: bytes, certificates: list[Any]) -> str | None:
    """Return why these certificates do not verify a timestamp; None if they do.

    They are evaluated at the time that it states.
    """
    client = _client()
    verifier = client.VerifierBuilder(roots=[*certificates]).build()
    try:
        verifier.verify_message(answer, signature)
    except BaseException as error:  # noqa: BLE001 - whatever it dies of, it has shown nothing
        return reason_of(error)
    return None


def _no_timestamp(where: str, found: str) -> AotcError:
    return refusal("AOTC-E324", where, found)
