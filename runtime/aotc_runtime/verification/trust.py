"""Whose signatures count: policies, keys, and signatures over a root digest."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc_runtime import limits
from aotc_runtime.decoders import decoder
from aotc_runtime.errors import BundleFormatError, Finding, TrustError, raise_if
from aotc_runtime.formats import dsse
from aotc_runtime.formats.foreign import decode_foreign
from aotc_runtime.formats.statement import PROVENANCE_TYPE, STATEMENT_TYPE, Statement
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.schema.policy import TrustedKey, TrustPolicy
from aotc_runtime.verification.keys import PublicKey, load_public_key
from aotc_runtime.verification.versions import version_key


def _policy_error(code: str, where: str, expected: str, found: str, hint: str) -> TrustError:
    return TrustError(Finding(code=code, where=where, expected=expected, found=found, hint=hint))


_WRITE_ONE = "write one with `aotc trust init --key KEY.pub --name NAME`"


def read_policy(path: Path) -> TrustPolicy:
    """Read a trust policy; key files are read in, so that the policy stands alone.

    Raises TrustError: AOTC-E308 unreadable, E309 not a valid policy.
    """
    where = str(path)
    try:
        data = tomllib.loads(_read_text(path))
        decoder(TrustPolicy)
        policy = msgspec.convert(data, TrustPolicy)
        raise_if(_check_fields(policy, where))
        keys = tuple(
            msgspec.structs.replace(
                key,
                public_key=_read_text(path.parent / key.public_key_file),
                public_key_file="",
            )
            if key.public_key_file
            else key
            for key in policy.keys
        )
    except OSError as error:
        raise _policy_error(
            "AOTC-E308",
            where if error.filename in (None, where) else f"{where} {error.filename}",
            "a readable trust policy and its key files",
            error.strerror or str(error),
            _WRITE_ONE,
        ) from error
    except (ValueError, RecursionError) as error:
        # UnicodeDecodeError, TOMLDecodeError, msgspec's ValidationError, a path with a zero byte.
        raise _policy_error(
            "AOTC-E309",
            where,
            "a trust policy: schema = 1, name, [[keys]] (docs/trust.md)",
            str(error),
            _WRITE_ONE,
        ) from error
    return msgspec.structs.replace(policy, keys=keys)


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(limits.POLICY_BYTES_MAX + 1)
    if len(data) > limits.POLICY_BYTES_MAX:
        raise _policy_error(
            "AOTC-E309",
            str(path),
            f"at most {limits.POLICY_BYTES_MAX} bytes",
            "more",
            "is this the right file?",
        )
    return data.decode("utf-8")


def _check_fields(policy: TrustPolicy, where: str) -> Iterator[Finding]:
    """What the types cannot say; a policy made in Python is checked as one that was read."""
    for index, key in enumerate(policy.keys):
        if bool(key.public_key) == bool(key.public_key_file):
            yield Finding(
                code="AOTC-E309",
                where=f"{where} {_key_place(index, key)}",
                expected="exactly one of public_key and public_key_file",
                found="both" if key.public_key else "neither",
                hint="public_key holds the PEM text, public_key_file the path of a .pub file",
            )
    if policy.minimum_version and version_key(policy.minimum_version) is None:
        yield Finding(
            code="AOTC-E309",
            where=f"{where} minimum_version",
            expected='a version such as "1.0.0" or "1.2.0-rc1"',
            found=repr(policy.minimum_version),
            hint="write the oldest bundle version that may still be loaded",
        )


def _key_place(index: int, key: TrustedKey) -> str:
    return f"keys[{index}] {key.name}".rstrip()


def policy_keys(policy: TrustPolicy) -> dict[str, PublicKey]:
    """The policy's keys by id. Raises TrustError (AOTC-E309, E310)."""
    raise_if(_check_fields(policy, "trust policy"))
    keys = [
        load_public_key(key.public_key, key.name, f"trust policy {_key_place(index, key)}")
        for index, key in enumerate(policy.keys)
    ]
    distinct = {key.id: key for key in keys}
    if policy.threshold > len(distinct):
        raise _policy_error(
            "AOTC-E309",
            "trust policy threshold",
            f"at most the number of distinct keys, {len(distinct)}",
            str(policy.threshold),
            "add keys, or lower the threshold",
        )
    return distinct


class SignedPayload(Struct, frozen=True):
    """A DSSE envelope taken apart; nothing in it is believed. where: for messages."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]
    where: str


def open_envelope(data: bytes, where: str) -> SignedPayload:
    """docs/trust.md 3: a well-formed envelope.

    Raises BundleFormatError: AOTC-E106 not an envelope, E107 base64, E119 number of signatures.
    """
    envelope = decode_foreign(data, dsse.Envelope, where=where)
    if not 1 <= len(envelope.signatures) <= limits.SIGNATURES_MAX:
        raise BundleFormatError(
            Finding(
                code="AOTC-E119",
                where=where,
                expected=f"1 to {limits.SIGNATURES_MAX} signatures",
                found=str(len(envelope.signatures)),
                hint="sign the bundle again with `aotc sign`",
            )
        )
    return SignedPayload(
        envelope.payloadType,
        dsse.decode_base64(envelope.payload, where=f"{where} payload"),
        tuple(
            (signature.keyid, dsse.decode_base64(signature.sig, where=f"{where} signature"))
            for signature in envelope.signatures
        ),
        where,
    )


def trusted_signers(
    envelopes: Sequence[bytes], root_digest: str, policy: TrustPolicy, where: str
) -> tuple[str, ...]:
    """docs/trust.md 4: ids of the policy's keys that signed this root digest, sorted; at least
    the threshold.

    Raises BundleFormatError for a malformed envelope, TrustError: AOTC-E301 unsigned, E302 signed
    by none of the policy's keys, E303 a signature that does not verify, E304 too few keys,
    E305 a statement about something else.
    """
    keys = policy_keys(policy)
    if not envelopes:
        raise _policy_error(
            "AOTC-E301",
            where,
            f"a signature by {_names(keys.values())}",
            "no signature at all",
            "sign it with `aotc sign BUNDLE --key KEY`",
        )
    signers: set[str] = set()
    strangers: set[str] = set()
    for number, data in enumerate(envelopes, start=1):
        signed = open_envelope(data, f"{where} attestation {number}")
        accepted = _accepted_keys(signed, keys, strangers)
        if accepted:
            # Only now is the payload worth parsing: a trusted key vouches for it.
            _check_statement(signed, root_digest)
            signers |= accepted
    if not signers:
        raise _policy_error(
            "AOTC-E302",
            where,
            f"a signature by {_names(keys.values())}",
            "signatures by keys the policy does not know: " + ", ".join(sorted(strangers)),
            "sign with a trusted key, or add the signer's key to the policy",
        )
    # docs/trust.md 4: k distinct keys, not k signatures.
    if len(signers) < policy.threshold:
        raise _policy_error(
            "AOTC-E304",
            where,
            f"signatures by {policy.threshold} distinct keys of {_names(keys.values())}",
            f"{len(signers)}: {_names(keys[signer] for signer in sorted(signers))}",
            "have another key holder run `aotc sign BUNDLE --key KEY`",
        )
    return tuple(sorted(signers))


def _accepted_keys(
    signed: SignedPayload, keys: Mapping[str, PublicKey], strangers: set[str]
) -> set[str]:
    """The trusted keys whose signature verifies; unknown key ids are added to `strangers`.

    A key id is a hint that nobody signs: an unknown or missing one excludes no key. A trusted
    key's id beside a signature that is not that key's is damage, and is refused.
    """
    message = dsse.pre_authentication_encoding(signed.payload_type, signed.payload)
    accepted = set()
    for claimed, signature in signed.signatures:
        named = keys.get(claimed)
        candidates = keys.values() if named is None else (named,)
        signer = next((key for key in candidates if key.verify(signature, message)), None)
        if signer is not None:
            accepted.add(signer.id)
        elif named is not None:
            raise _policy_error(
                "AOTC-E303",
                signed.where,
                f"a valid signature by key {named.name or named.id[:16]}",
                "a signature that does not match what it signs",
                "the attestation was changed: fetch the bundle again, or sign it again",
            )
        else:
            strangers.add(claimed[:16] or "one without a key id")
    return accepted


def _check_statement(signed: SignedPayload, root_digest: str) -> None:
    """The signed statement vouches for exactly this root.

    Only provenance vouches: a trusted key may also sign a test report or a warning about a bundle.
    """
    expected = f"a signed {PROVENANCE_TYPE} statement about exactly {root_digest}"
    hint = "the signature is about something else: sign this bundle with `aotc sign`"
    if signed.payload_type != dsse.PAYLOAD_TYPE:
        found = f"a payload of type {signed.payload_type}"
        raise _policy_error("AOTC-E305", signed.where, expected, found, hint)
    statement = decode_foreign(signed.payload, Statement, where=signed.where)
    if statement.type != STATEMENT_TYPE or statement.predicateType != PROVENANCE_TYPE:
        found = f"{statement.type} with {statement.predicateType}"
        raise _policy_error("AOTC-E305", signed.where, expected, found, hint)
    subjects = [subject.digest for subject in statement.subject]
    if subjects != [{"sha256": root_digest.removeprefix("sha256:")}]:
        found = "about " + (", ".join(str(subject) for subject in subjects) or "nothing")
        raise _policy_error("AOTC-E305", signed.where, expected, found, hint)


def _names(keys: Iterable[PublicKey]) -> str:
    return ", ".join(f"{key.name} ({key.id[:16]})" if key.name else key.id[:16] for key in keys)


def check_policy(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """docs/trust.md 7, the policy on the signed content: AOTC-E306 name, E307 version."""
    where = f"{manifest.name} {manifest.version}"
    if not fnmatch.fnmatchcase(manifest.name, policy.name):
        yield Finding(
            code="AOTC-E306",
            where=where,
            expected=f"a bundle named {policy.name}, as the trust policy says",
            found=manifest.name,
            hint="load the bundle this policy is for, or write a policy for this one",
        )
    if policy.minimum_version:
        minimum, found = version_key(policy.minimum_version), version_key(manifest.version)
        if minimum is None or found is None or found < minimum:
            yield Finding(
                code="AOTC-E307",
                where=where,
                expected=f"version {policy.minimum_version} or later, as the trust policy says",
                found=manifest.version,
                hint="deploy the newer version; lowering minimum_version allows rollback",
            )
