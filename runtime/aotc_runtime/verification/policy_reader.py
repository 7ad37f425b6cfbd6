"""Trust policies: read from their file, checked, and their keys."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from aotc_runtime.base import limits
from aotc_runtime.base.canonical_json import decode_toml, decoder
from aotc_runtime.base.errors import Finding, TrustError, raise_if, refusal
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.bundle_files import read_file
from aotc_runtime.verification.public_keys import PublicKey, load_public_key

type Location = str | os.PathLike[str]


def read_policy(path: Location) -> TrustPolicy:
    """Read a trust policy; key files are read in, so that the policy stands alone.

    Raises TrustError: AOTC-E308 unreadable, E309, E310 not a valid policy, with everything wrong.
    """
    return parse_policy(read_policy_text(path), os.path.dirname(path), str(path))


def read_policy_text(path: Location) -> str:
    """Read a policy's TOML text. Raises TrustError: AOTC-E308 unreadable, E309 no text."""
    try:
        return read_text(path)
    except OSError as error:
        raise TrustError(_texts().unreadable(str(path), error)) from error
    except ValueError as error:
        raise TrustError(_texts().invalid(str(path), error)) from error


def parse_policy(text: str, folder: Location, where: str) -> TrustPolicy:
    """Parse a policy from TOML text.

    `folder` is where its key files lie, `where` its name in messages. Raises TrustError as
    `read_policy`.
    """
    try:
        data = decode_toml(text)
        _check_integers(data)
    except (ValueError, RecursionError) as error:
        raise TrustError(_texts().invalid(where, error)) from error
    file = PolicyFile(where, text)
    policy = _to_policy(data, file)
    findings = list(_check_fields(policy, file))
    named = [key.public_key_file for key in (*policy.keys, *policy.certifiers)]
    named += [each.certificates_file for each in policy.timestamp_authorities]
    named += [each.trusted_root_file for each in policy.identities]
    if any(named):
        from aotc_runtime.verification import policy_files

        policy = policy_files.with_texts(policy, folder, file.entry, read_text, findings)
    raise_if(findings)
    _keys_of(policy, file)
    return policy


class PolicyFile(Struct, frozen=True):
    """The source of a policy: its name in messages and its TOML; None for one made in Python."""

    name: str
    text: str | None = None

    def place(self, *path: str | int) -> str:
        """Return where a key stands, with its line if the text is known."""
        from aotc_runtime.verification.policy_types import Places

        return Places(self.name, self.text).locate(path)

    def entry(self, table: str, index: int, entry: Any) -> str:
        """Return where an entry of a table stands, with its name."""
        return f"{self.place(table, index)} {entry.name}".rstrip()


def _check_integers(value: Any) -> None:
    """Raise ValueError for an integer that TOML does not allow.

    tomllib reads hexadecimal integers of any length, which Python then refuses to print.
    """
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer of more than 64 bits")


def _to_policy(data: Any, file: PolicyFile) -> TrustPolicy:
    """Return the document as a policy. Raises TrustError: AOTC-E309, once for each key."""
    decoder(TrustPolicy)
    try:
        return msgspec.convert(data, TrustPolicy)
    except (msgspec.ValidationError, RecursionError) as error:
        from aotc_runtime.verification.policy_types import policy_problems

        findings = tuple(policy_problems(data, file.name, file.text)) or (
            _texts().invalid(file.name, error),
        )
        raise TrustError(*findings) from error


def read_text(path: Location) -> str:
    """Read a policy's file, or one that it names.

    Raises OSError, ValueError for other bytes than text, and TrustError (AOTC-E309) for a file that
    is too large.
    """
    data = read_file(path, limits.POLICY_BYTES_MAX)
    if len(data) > limits.POLICY_BYTES_MAX:
        expected = f"at most {limits.POLICY_BYTES_MAX} bytes"
        cause = "trust-policy-exceeds-the-size-limit"
        raise refusal("AOTC-E309", str(path), "more", cause=cause, expected=expected)
    return data.decode("utf-8")


def _check_fields(policy: TrustPolicy, file: PolicyFile) -> Iterator[Finding]:
    """Yield violations of rules that types cannot express."""
    for table, keys in (("keys", policy.keys), ("certifiers", policy.certifiers)):
        for index, key in enumerate(keys):
            wrong = {}
            if bool(key.public_key) == bool(key.public_key_file):
                wrong["public_key"] = "both" if key.public_key else "neither"
            if key.not_before and key.not_after and key.not_before > key.not_after:
                wrong["window"] = f"{key.not_before.isoformat()} and {key.not_after.isoformat()}"
            if table == "certifiers" and (key.holder or key.builders is not None):
                wrong["certifier"] = "holder" if key.holder else "builders"
            for name, found in wrong.items():
                yield _texts().problem(name, file.entry(table, index, key), found)
    if not policy.keys and not policy.identities:
        yield _texts().problem("keys", file.place("keys"), "neither")
    if policy.binds_builders() and not any(policy.speakers()):
        yield _texts().problem("builders", file.place("keys"), "builders = [], everywhere")
    if policy.metrics:
        yield from _texts().check_metric_rules(policy, file.place)
    if policy.minimum_version:
        from aotc_runtime.verification.bundle_versions import version_key

        if version_key(policy.minimum_version) is None:
            place = file.place("minimum_version")
            yield _texts().problem("minimum_version", place, repr(policy.minimum_version))


def _texts() -> Any:
    """Return the module of error texts, which is imported only where there is an error."""
    from aotc_runtime.verification import policy_refusals

    return policy_refusals


def policy_keys(policy: TrustPolicy, where: str = "trust policy") -> dict[str, PublicKey]:
    """Return the policy's keys by id; a policy made in Python is checked as one that was read.

    Raises TrustError (AOTC-E309, E310), with everything that is wrong.
    """
    try:
        document = msgspec.to_builtins(policy)
    except TypeError as error:
        raise TrustError(_texts().invalid(where, error)) from error
    file = PolicyFile(where)
    _to_policy(document, file)
    raise_if(_check_fields(policy, file))
    return _keys_of(policy, file)


def _keys_of(policy: TrustPolicy, file: PolicyFile) -> dict[str, PublicKey]:
    """Return the keys of a policy whose fields are sound. Raises as `policy_keys`."""
    findings: list[Finding] = []
    if policy.timestamp_authorities:
        from aotc_runtime.verification import signature_timestamps

        findings += signature_timestamps.check_authorities(policy, file.name)
    distinct = distinct_keys(policy, "keys", file, findings)
    if policy.identities:
        from aotc_runtime.verification import sigstore_identities

        findings += sigstore_identities.check_identities(policy, file.name)
        distinct |= sigstore_identities.as_keys(policy)
    raise_if(findings)
    if policy.threshold > 1:
        raise_if(_texts().check_threshold(policy, distinct.values(), file.place("threshold")))
    return distinct


def distinct_keys(
    policy: TrustPolicy, table: str, file: PolicyFile, findings: list[Finding]
) -> dict[str, PublicKey]:
    """Return the keys of a table, each once; what is wrong with them is added to findings."""
    distinct: dict[str, PublicKey] = {}
    for index, stated in enumerate(policy.keys if table == "keys" else policy.certifiers):
        try:
            key = load_public_key(stated.public_key, stated.name, file.name)
        except TrustError as error:
            place = file.entry(table, index, stated)
            findings += (msgspec.structs.replace(each, where=place) for each in error.findings)
            continue
        key = msgspec.structs.replace(
            key,
            not_before=stated.not_before,
            not_after=stated.not_after,
            revoked=key.id in policy.revoked.keys,
            revoked_since=policy.revoked.since.get(key.id),
            holder=stated.holder or key.id,
            builders=stated.builders,
        )
        other = distinct.setdefault(key.id, key)
        if _role(other) != _role(key):
            found = f"something else than where {key.id[:16]} stands first"
            place = file.entry(table, index, stated)
            findings.append(_texts().problem("other_role", place, found))
    return distinct


def _role(key: PublicKey) -> tuple[object, ...]:
    """Return the fields of a key in a policy, beside its name."""
    return (key.not_before, key.not_after, key.holder, key.builders)
