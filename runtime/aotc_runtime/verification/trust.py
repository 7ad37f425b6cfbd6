"""Whose signatures count: policies, keys, and signatures over a root digest."""

from __future__ import annotations

import fnmatch
import hashlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from aotc_runtime import limits
from aotc_runtime.errors import Finding, TrustError
from aotc_runtime.formats import dsse, oci
from aotc_runtime.formats.statement import STATEMENT_TYPE, Statement
from aotc_runtime.schema.manifest import BundleManifest
from aotc_runtime.schema.policy import TrustPolicy
from aotc_runtime.verification.versions import version_key


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key whose signatures can be checked. id: SHA-256 of the SubjectPublicKeyInfo, hex.
    verify: (signature, message) to whether the signature is this key's.
    """

    id: str
    name: str
    verify: Callable[[bytes, bytes], bool]


def _policy_error(code: str, where: str, expected: str, found: str, hint: str) -> TrustError:
    return TrustError(Finding(code=code, where=where, expected=expected, found=found, hint=hint))


def read_policy(path: Path) -> TrustPolicy:
    """Read a trust policy; key files are read in, so that the policy stands alone.

    Raises TrustError: AOTC-E308 unreadable, E309 not a valid policy.
    """
    where = str(path)
    try:
        if path.stat().st_size > limits.POLICY_BYTES_MAX:
            found = f"{path.stat().st_size} bytes"
            expected = f"at most {limits.POLICY_BYTES_MAX} bytes"
            raise _policy_error("AOTC-E309", where, expected, found, "is this the right file?")
        data = tomllib.loads(path.read_bytes().decode("utf-8"))
        policy = msgspec.convert(data, TrustPolicy)
        keys = tuple(
            msgspec.structs.replace(
                key,
                public_key=(path.parent / key.public_key_file).read_text(encoding="utf-8"),
                public_key_file="",
            )
            if key.public_key_file and not key.public_key
            else key
            for key in policy.keys
        )
    except OSError as error:
        raise _policy_error(
            "AOTC-E308",
            f"{where}" if error.filename in (None, where) else f"{where} {error.filename}",
            "a readable trust policy and its key files",
            error.strerror or str(error),
            "write one with `aotc trust init --key KEY.pub --name NAME`",
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise _policy_error(
            "AOTC-E309",
            where,
            "a trust policy: schema = 1, name, [[keys]] (docs/trust.md)",
            str(error),
            "write one with `aotc trust init --key KEY.pub --name NAME`",
        ) from error
    return msgspec.structs.replace(policy, keys=keys)


def load_public_key(pem: str, name: str, where: str) -> PublicKey:
    """An Ed25519 or ECDSA P-256 public key from PEM. Raises TrustError (AOTC-E310)."""
    # Imported here: a process that only inspects a bundle needs no cryptography.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _policy_error(
            "AOTC-E310",
            where,
            "a PEM public key: -----BEGIN PUBLIC KEY-----",
            str(error).splitlines()[0] if str(error) else "something else",
            "use the .pub file that `aotc keygen` wrote",
        ) from error
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    def guarded(check: Callable[[bytes, bytes], None]) -> Callable[[bytes, bytes], bool]:
        def verify(signature: bytes, message: bytes) -> bool:
            try:
                check(signature, message)
            except InvalidSignature:
                return False
            return True

        return verify

    check: Callable[[bytes, bytes], None]
    if isinstance(key, ed25519.Ed25519PublicKey):
        check = key.verify
    elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        check = partial(_verify_ecdsa, key, ec.ECDSA(hashes.SHA256()))
    else:
        raise _policy_error(
            "AOTC-E310",
            where,
            "an Ed25519 or ECDSA P-256 key",
            type(key).__name__,
            "make one with `aotc keygen`",
        )
    return PublicKey(hashlib.sha256(der).hexdigest(), name, guarded(check))


def _verify_ecdsa(key: Any, algorithm: Any, signature: bytes, message: bytes) -> None:
    key.verify(signature, message, algorithm)


def policy_keys(policy: TrustPolicy) -> dict[str, PublicKey]:
    """The policy's keys by id. Raises TrustError (AOTC-E309, E310)."""
    keys = [
        load_public_key(key.public_key, key.name, f"trust policy keys[{index}] {key.name}".rstrip())
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


def trusted_signers(
    envelopes: Sequence[bytes], root_digest: str, policy: TrustPolicy, where: str
) -> tuple[str, ...]:
    """Ids of the policy's keys that signed this root digest, sorted; at least the threshold.

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
    for number, data in enumerate(envelopes):
        place = f"{where} attestation {number + 1}"
        envelope = oci.decode_foreign(data, dsse.Envelope, where=place)
        payload = dsse.decode_base64(envelope.payload, where=place)
        message = dsse.pre_authentication_encoding(envelope.payloadType, payload)
        accepted = set()
        for signature in envelope.signatures:
            key = keys.get(signature.keyid)
            if key is None:
                strangers.add(signature.keyid)
                continue
            if not key.verify(dsse.decode_base64(signature.sig, where=place), message):
                raise _policy_error(
                    "AOTC-E303",
                    place,
                    f"a valid signature by key {key.name or key.id[:16]}",
                    "a signature that does not match what it signs",
                    "the attestation was changed: fetch the bundle again, or sign it again",
                )
            accepted.add(key.id)
        if accepted:
            # Only now is the payload worth parsing: a trusted key vouches for it.
            _check_statement(envelope, payload, root_digest, place)
            signers |= accepted
    if not signers:
        raise _policy_error(
            "AOTC-E302",
            where,
            f"a signature by {_names(keys.values())}",
            "signatures by keys the policy does not know: "
            + ", ".join(sorted(key[:16] for key in strangers)),
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


def _check_statement(envelope: dsse.Envelope, payload: bytes, root_digest: str, where: str) -> None:
    statement = None
    if envelope.payloadType == dsse.PAYLOAD_TYPE:
        statement = oci.decode_foreign(payload, Statement, where=where)
    subjects = (
        [subject.digest for subject in statement.subject]
        if statement is not None and statement.type == STATEMENT_TYPE
        else []
    )
    if subjects != [{"sha256": root_digest.removeprefix("sha256:")}]:
        raise _policy_error(
            "AOTC-E305",
            where,
            f"an in-toto statement about exactly {root_digest}",
            "a statement about "
            + (", ".join(str(subject) for subject in subjects) or "something else"),
            "the signature belongs to another bundle: sign this one with `aotc sign`",
        )


def _names(keys: Iterable[PublicKey]) -> str:
    return ", ".join(f"{key.name} ({key.id[:16]})" if key.name else key.id[:16] for key in keys)


def check_policy(manifest: BundleManifest, policy: TrustPolicy) -> Iterator[Finding]:
    """What the policy says about the signed content: AOTC-E306 name, E307 version."""
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
