"""Trust policies: read from their file, checked, and their keys."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aotc_runtime import limits
from aotc_runtime.canonical import decoder
from aotc_runtime.errors import Finding, TrustError, finding, raise_if, refusal
from aotc_runtime.schema.policy import TrustedKey, TrustPolicy
from aotc_runtime.system.store import read_file
from aotc_runtime.verification.keys import PublicKey, load_public_key

_WRITE_ONE = "write one with `aotc trust init --key KEY.pub --name NAME`"


def read_policy(path: Path) -> TrustPolicy:
    """Read a trust policy; key files are read in, so that the policy stands alone.

    Raises TrustError: AOTC-E308 unreadable, E309 not a valid policy, with everything that is wrong.
    """
    return parse_policy(read_policy_text(path), path.parent, str(path))


def read_policy_text(path: Path) -> str:
    """The TOML text of a policy file. Raises TrustError: AOTC-E308 unreadable, E309 no text."""
    try:
        return read_text(path)
    except OSError as error:
        raise TrustError(_unreadable(str(path), error)) from error
    except ValueError as error:
        raise TrustError(_invalid(str(path), error)) from error


def parse_policy(text: str, folder: Path, where: str) -> TrustPolicy:
    """The policy in a TOML text. folder: where its key files are looked for.  where: its name in
    messages. Raises TrustError as `read_policy`.
    """
    try:
        data = tomllib.loads(text)
        _check_integers(data)
    except (ValueError, RecursionError) as error:
        raise TrustError(_invalid(where, error)) from error
    policy = _typed(data, where, text)
    findings = list(_check_fields(policy, where, text))
    tables: dict[str, list[TrustedKey]] = {"keys": [], "certifiers": []}
    for table, index, key in _stated_keys(policy):
        if key.public_key_file and not key.public_key:
            try:
                pem = read_text(folder / key.public_key_file)
            except OSError as error:
                place = _key_place(where, text, table, index, key)
                findings.append(unreadable_file(f"{place} {folder / key.public_key_file}", error))
                continue
            except ValueError as error:
                # UnicodeDecodeError, or a path with a zero byte.
                findings.append(_invalid(_key_place(where, text, table, index, key), error))
                continue
            key = msgspec.structs.replace(key, public_key=pem, public_key_file="")
        tables[table].append(key)
    if policy.timestamp_authorities:
        from aotc_runtime.verification import authorities

        policy = authorities.read_files(policy, folder, where, findings)
    if policy.identities:
        from aotc_runtime.verification import identities

        policy = identities.read_files(policy, folder, where, findings)
    if not findings and policy.threshold > (
        most := len(
            {key.holder or key.public_key for key in tables["keys"]}
            | {each.holder or (each.issuer, each.identity) for each in policy.identities}
        )
    ):
        findings.append(_threshold(policy, most, _place(where, text, "threshold")))
    raise_if(findings)
    read = {table: tuple(keys) for table, keys in tables.items()}
    return msgspec.structs.replace(policy, **read)


def _stated_keys(policy: TrustPolicy) -> Iterator[tuple[str, int, TrustedKey]]:
    """Every key with the table and the place where it stands."""
    for table, keys in (("keys", policy.keys), ("certifiers", policy.certifiers)):
        for index, key in enumerate(keys):
            yield table, index, key


def _check_integers(value: Any) -> None:
    """Raise ValueError for an integer that TOML does not allow; in hexadecimal, tomllib reads one
    of any length, which Python then refuses to print.
    """
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer of more than 64 bits")


def _place(where: str, text: str | None, *path: str | int) -> str:
    """Where a key stands, with its line if the text is known."""
    from aotc_runtime.verification.policy_types import Places

    return Places(where, text).of(path)


def _typed(data: Any, where: str, text: str | None = None) -> TrustPolicy:
    """The document as a policy. Raises TrustError: AOTC-E309, once for each key."""
    decoder(TrustPolicy)
    try:
        return msgspec.convert(data, TrustPolicy)
    except (msgspec.ValidationError, RecursionError) as error:
        from aotc_runtime.verification.policy_types import policy_problems

        findings = tuple(policy_problems(data, where, text)) or (_invalid(where, error),)
        raise TrustError(*findings) from error


def _unreadable(where: str, error: OSError) -> Finding:
    hint = f"check the path, or {_WRITE_ONE}"
    return finding(
        "AOTC-E308", where, _reason(error), expected="a readable trust policy", hint=hint
    )


def unreadable_file(where: str, error: OSError) -> Finding:
    """AOTC-E308 for a file that a policy names."""
    expected = "a readable file with a public key, or certificates"
    hint = "check the path: files are looked for beside the policy"
    return finding("AOTC-E308", where, _reason(error), expected=expected, hint=hint)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _threshold(policy: TrustPolicy, most: int, where: str) -> Finding:
    counted = "holders of keys" if any(key.holder for key in policy.keys) else "distinct keys"
    expected = f"at most the number of {counted}, {most}"
    hint = "add keys, or lower the threshold"
    return finding("AOTC-E309", where, str(policy.threshold), expected=expected, hint=hint)


def _invalid(where: str, error: Exception) -> Finding:
    expected = "a trust policy: schema = 1, name, [[keys]] (docs/trust.md)"
    return finding("AOTC-E309", where, str(error), expected=expected, hint=_WRITE_ONE)


def read_text(path: Path) -> str:
    """A file that a policy is, or names. Raises OSError, ValueError for what is no text, and
    TrustError (AOTC-E309) for what is too large.
    """
    data = read_file(path, limits.POLICY_BYTES_MAX)
    if len(data) > limits.POLICY_BYTES_MAX:
        expected = f"at most {limits.POLICY_BYTES_MAX} bytes"
        hint = "is this the right file?"
        raise refusal("AOTC-E309", str(path), "more", expected=expected, hint=hint)
    return data.decode("utf-8")


def _check_fields(policy: TrustPolicy, where: str, text: str | None = None) -> Iterator[Finding]:
    """What the types cannot say."""
    for table, index, key in _stated_keys(policy):
        if bool(key.public_key) == bool(key.public_key_file):
            yield finding(
                "AOTC-E309",
                _key_place(where, text, table, index, key),
                "both" if key.public_key else "neither",
                expected="exactly one of public_key and public_key_file",
                hint="public_key holds the PEM text, public_key_file the path of a .pub file",
            )
        if key.not_before and key.not_after and key.not_before > key.not_after:
            yield finding(
                "AOTC-E309",
                _key_place(where, text, table, index, key),
                f"{key.not_before.isoformat()} and {key.not_after.isoformat()}",
                expected="not_before no later than not_after",
                hint="swap the two, or correct one",
            )
        if table == "certifiers" and (key.holder or key.builders is not None):
            yield finding(
                "AOTC-E309",
                _key_place(where, text, table, index, key),
                "holder" if key.holder else "builders",
                expected="neither holder nor builders: a certifier vouches for no bundle and "
                "describes no build",
                hint="remove it; keys have them",
            )
    if not policy.keys and not policy.identities:
        expected = "at least one of [[keys]] or [[identities]]"
        yield finding("AOTC-E309", f"{where} keys", "neither", expected=expected, hint=_WRITE_ONE)
    if policy.binds_builders() and not any(policy.speakers()):
        yield finding(
            "AOTC-E309",
            _place(where, text, "keys"),
            "builders = [], everywhere",
            expected="a key that may speak for a builder, since somebody has to describe the build",
            hint="name its builders, or leave builders out of all keys",
        )
    if policy.minimum_version and not _is_version(policy.minimum_version):
        yield finding(
            "AOTC-E309",
            _place(where, text, "minimum_version"),
            repr(policy.minimum_version),
            expected='a version such as "1.0.0" or "1.2.0-rc1"',
            hint="write the oldest bundle version that may still be loaded",
        )


def _is_version(text: str) -> bool:
    from aotc_runtime.verification.versions import version_key

    return version_key(text) is not None


def _key_place(where: str, text: str | None, table: str, index: int, key: TrustedKey) -> str:
    return f"{_place(where, text, table, index)} {key.name}".rstrip()


def policy_keys(policy: TrustPolicy, where: str = "trust policy") -> dict[str, PublicKey]:
    """The policy's keys by id; a policy made in Python is checked as one that was read.

    Raises TrustError (AOTC-E309, E310), with everything that is wrong.
    """
    try:
        document = msgspec.to_builtins(policy)
    except TypeError as error:
        raise TrustError(_invalid(where, error)) from error
    _typed(document, where)
    findings = list(_check_fields(policy, where))
    if policy.timestamp_authorities:
        from aotc_runtime.verification import authorities

        findings += authorities.check_authorities(policy, where)
    distinct = _distinct(policy, "keys", where, findings)
    if policy.identities:
        from aotc_runtime.verification import identities

        findings += identities.check_identities(policy, where)
        distinct |= identities.as_keys(policy)
    raise_if(findings)
    if policy.threshold > (most := len({key.holder for key in distinct.values()})):
        raise TrustError(_threshold(policy, most, f"{where} threshold"))
    return distinct


def certifier_keys(policy: TrustPolicy, where: str = "trust policy") -> dict[str, PublicKey]:
    """The certifiers' keys by id, of a policy whose keys `policy_keys` has checked.

    Raises TrustError (AOTC-E309, E310), with everything that is wrong.
    """
    findings: list[Finding] = []
    distinct = _distinct(policy, "certifiers", where, findings)
    raise_if(findings)
    return distinct


def _distinct(
    policy: TrustPolicy, table: str, where: str, findings: list[Finding]
) -> dict[str, PublicKey]:
    """The keys of a table, each once; what is wrong with them is added to findings."""
    distinct: dict[str, PublicKey] = {}
    for name, index, stated in _stated_keys(policy):
        if name != table:
            continue
        place = f"{where} {table}[{index}] {stated.name}".rstrip()
        try:
            key = load_public_key(stated.public_key, stated.name, place)
        except TrustError as error:
            findings += error.findings
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
            expected = "one window, one holder and one list of builders for a key"
            hint = "list each key once"
            found = f"something else than where {key.id[:16]} stands first"
            findings.append(finding("AOTC-E309", place, found, expected=expected, hint=hint))
    return distinct


def _role(key: PublicKey) -> tuple[object, ...]:
    """What a policy says of a key, beside its name."""
    return (key.not_before, key.not_after, key.holder, key.builders)
