"""What is wrong with a trust policy, in words; imported where something is."""

from __future__ import annotations

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.trust_policy import TrustedKey, TrustPolicy

_WRITE_ONE = "write one with `aotc trust init --key KEY.pub --name NAME`"


def unreadable(where: str, error: OSError) -> Finding:
    """AOTC-E308 for the policy's file."""
    hint = f"check the path, or {_WRITE_ONE}"
    return finding(
        "AOTC-E308", where, _reason(error), expected="a readable trust policy", hint=hint
    )


def unreadable_file(where: str, error: OSError | ValueError) -> Finding:
    """AOTC-E308 for a file that a policy names, or E309 if it holds no text."""
    code, found = "AOTC-E309", str(error)
    if isinstance(error, OSError):
        code, found = "AOTC-E308", _reason(error)
    expected = "a readable file with a public key, certificates or a trusted root"
    hint = "check the path: files are looked for beside the policy"
    return finding(code, where, found, expected=expected, hint=hint)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def invalid(where: str, error: Exception) -> Finding:
    """AOTC-E309 for what is no policy at all."""
    expected = "a trust policy: schema = 1, name, [[keys]] (docs/trust.md)"
    return finding("AOTC-E309", where, str(error), expected=expected, hint=_WRITE_ONE)


def threshold(policy: TrustPolicy, most: int, where: str) -> Finding:
    """AOTC-E309 for one that cannot be met."""
    holders = [key.holder for key in policy.keys] + [each.holder for each in policy.identities]
    counted = "holders of keys" if any(holders) else "distinct keys"
    counted += " and identities" if policy.identities else ""
    expected = f"at most the number of {counted}, {most}"
    hint = "add keys, or lower the threshold"
    return finding("AOTC-E309", where, str(policy.threshold), expected=expected, hint=hint)


def nobody(where: str) -> Finding:
    """AOTC-E309 for a policy by which nobody vouches for anything."""
    expected = "at least one of [[keys]] or [[identities]]"
    return finding("AOTC-E309", where, "neither", expected=expected, hint=_WRITE_ONE)


def public_key(where: str, key: TrustedKey) -> Finding:
    """AOTC-E309 for a key that is stated nowhere, or twice."""
    return finding(
        "AOTC-E309",
        where,
        "both" if key.public_key else "neither",
        expected="exactly one of public_key and public_key_file",
        hint="public_key holds the PEM text, public_key_file the path of a .pub file",
    )


def window(where: str, key: TrustedKey) -> Finding:
    """AOTC-E309 for a key that ends before it begins."""
    assert key.not_before and key.not_after, "both are stated"
    return finding(
        "AOTC-E309",
        where,
        f"{key.not_before.isoformat()} and {key.not_after.isoformat()}",
        expected="not_before no later than not_after",
        hint="swap the two, or correct one",
    )


def other_role(where: str, key_id: str) -> Finding:
    """AOTC-E309 for a key that is stated twice, and not alike."""
    return finding(
        "AOTC-E309",
        where,
        f"something else than where {key_id[:16]} stands first",
        expected="one window, one holder and one list of builders for a key",
        hint="list each key once",
    )


def certifiers_role(where: str, key: TrustedKey) -> Finding:
    """AOTC-E309 for a certifier with what only keys have."""
    return finding(
        "AOTC-E309",
        where,
        "holder" if key.holder else "builders",
        expected="neither holder nor builders: a certifier vouches for no bundle and describes no "
        "build",
        hint="remove it; keys have them",
    )


def no_speaker(where: str) -> Finding:
    """AOTC-E309 for builders that nobody may speak for."""
    return finding(
        "AOTC-E309",
        where,
        "builders = [], everywhere",
        expected="a key that may speak for a builder, since somebody has to describe the build",
        hint="name its builders, or leave builders out of all keys",
    )


def minimum_version(where: str, policy: TrustPolicy) -> Finding:
    """AOTC-E309 for a version that cannot be compared."""
    return finding(
        "AOTC-E309",
        where,
        repr(policy.minimum_version),
        expected='a version such as "1.0.0" or "1.2.0-rc1"',
        hint="write the oldest bundle version that may still be loaded",
    )
