"""What is wrong with a trust policy, in words; imported where something is."""

from __future__ import annotations

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.schema.trust_policy import TrustPolicy

_WRITE_ONE = "write one with `aotc trust init --key KEY.pub --name NAME`"

_WORDS = {
    "keys": ("at least one of [[keys]] or [[identities]]", _WRITE_ONE),
    "public_key": (
        "exactly one of public_key and public_key_file",
        "public_key holds the PEM text, public_key_file the path of a .pub file",
    ),
    "window": ("not_before no later than not_after", "swap the two, or correct one"),
    "other_role": (
        "one window, one holder and one list of builders for a key",
        "list each key once",
    ),
    "certifier": (
        "neither holder nor builders: a certifier vouches for no bundle and describes no build",
        "remove it; keys have them",
    ),
    "builders": (
        "a key that may speak for a builder, since somebody has to describe the build",
        "name its builders, or leave builders out of all keys",
    ),
    "minimum_version": (
        'a version such as "1.0.0" or "1.2.0-rc1"',
        "write the oldest bundle version that may still be loaded",
    ),
}
"""Expected, and hint, of what is wrong by itself."""


def problem(name: str, where: str, found: str) -> Finding:
    """AOTC-E309 for a rule that a policy breaks."""
    expected, hint = _WORDS[name]
    return finding("AOTC-E309", where, found, expected=expected, hint=hint)


def unreadable(where: str, error: OSError) -> Finding:
    """AOTC-E308 for the policy's file."""
    found, hint = error.strerror or str(error), f"check the path, or {_WRITE_ONE}"
    return finding("AOTC-E308", where, found, expected="a readable trust policy", hint=hint)


def unreadable_file(where: str, error: OSError | ValueError) -> Finding:
    """AOTC-E308 for a file that a policy names, or E309 if it holds no text."""
    code, found = "AOTC-E309", str(error)
    if isinstance(error, OSError):
        code, found = "AOTC-E308", error.strerror or found
    expected = "a readable file with a public key, certificates or a trusted root"
    hint = "check the path: files are looked for beside the policy"
    return finding(code, where, found, expected=expected, hint=hint)


def invalid(where: str, error: Exception) -> Finding:
    """AOTC-E309 for what is no policy at all."""
    expected = "a trust policy: schema = 1, name, [[keys]] (docs/reference/trust-policy.md)"
    return finding("AOTC-E309", where, str(error), expected=expected, hint=_WRITE_ONE)


def threshold(policy: TrustPolicy, most: int, where: str) -> Finding:
    """AOTC-E309 for one that cannot be met."""
    holders = [key.holder for key in policy.keys] + [each.holder for each in policy.identities]
    counted = "holders of keys" if any(holders) else "distinct keys"
    counted += " and identities" if policy.identities else ""
    expected = f"at most the number of {counted}, {most}"
    hint = "add keys, or lower the threshold"
    return finding("AOTC-E309", where, str(policy.threshold), expected=expected, hint=hint)
