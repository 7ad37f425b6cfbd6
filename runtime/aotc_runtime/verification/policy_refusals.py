"""Errors of trust policies. Imported when there is one, a metric, or a threshold above 1."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.base.suggestions import closest
from aotc_runtime.schema.bundle_manifest import BundleManifest
from aotc_runtime.schema.trust_policy import MetricRule, TrustPolicy
from aotc_runtime.verification.public_keys import PublicKey

_WRITE_ONE = "write a policy with `aotc trust init --key KEY.pub --name NAME`"

_WORDS = {
    "keys": ("at least one of [[keys]] or [[identities]]", _WRITE_ONE),
    "public_key": (
        "exactly one of public_key and public_key_file",
        "set `public_key` to PEM text, or `public_key_file` to the path of a .pub file",
    ),
    "window": ("not_before before not_after", "swap the two, or correct one"),
    "other_role": (
        "one validity period, holder and list of builders for a key",
        "list each key once",
    ),
    "certifier": ("neither holder nor builders", "remove it: certifiers sign certificates only"),
    "builders": (
        "a key that may describe a build",
        "name its builders, or leave `builders` out of all keys",
    ),
    "metrics": (
        "a finite number, or one of minimum and maximum",
        "set it to the worst value that may be deployed",
    ),
    "minimum_version": (
        'a version such as "1.0.0" or "1.2.0-rc1"',
        "set it to the oldest version that may be loaded",
    ),
}
"""Expected values and hints, by rule."""


_POSITION = re.compile(r" \(at line (\d+), column \d+\)\Z")
"""The end of `tomllib`'s messages."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)
"""Letters and marks without a shape (Default_Ignorable_Code_Point), beside control characters."""


def problem(name: str, where: str, found: str) -> Finding:
    """Return a finding (AOTC-E309) for a rule that a policy breaks."""
    expected, hint = _WORDS[name]
    return finding("AOTC-E309", where, found, expected=expected, hint=hint)


def unreadable(where: str, error: OSError) -> Finding:
    """Return a finding (AOTC-E308) for a policy file that cannot be read."""
    return finding("AOTC-E308", where, error.strerror or str(error))


def unreadable_file(where: str, error: OSError | ValueError) -> Finding:
    """Return AOTC-E308 for a file that a policy names, or E309 if it holds no text."""
    if isinstance(error, OSError):
        found = error.strerror or str(error)
        return finding("AOTC-E308", where, found, cause="key-file-is-not-readable")
    return finding("AOTC-E309", where, str(error), expected="text", hint="check the path")


def invalid(where: str, error: Exception) -> Finding:
    """Return a finding (AOTC-E309) for a text that is not TOML, with its line if it is known."""
    found, hint = str(error), _WRITE_ONE
    if where.endswith((".key", ".pub")):
        found = "a key file"
    elif where.endswith(".toml") and (at := _POSITION.search(found)):
        found, where = found[: at.start()], f"{where}:{at[1]}"
        hint = "correct the syntax on this line; strings are written in quotes"
    return finding("AOTC-E309", where, found, hint=hint)


def check_threshold(
    policy: TrustPolicy, keys: Iterable[PublicKey], where: str
) -> Iterator[Finding]:
    """Yield AOTC-E309 for holders that look alike, and for too few holders for the threshold."""
    holders = sorted({key.holder for key in keys})
    seen: dict[str, str] = {}
    for holder in holders:
        other = seen.setdefault(_as_it_looks(holder), holder)
        if other != holder:
            found, cause = f"{other!a} and {holder!a}", "holders-of-keys-look-alike"
            yield finding("AOTC-E309", where, found, cause=cause)
    if policy.threshold > len(holders):
        stated = [key.holder for key in policy.keys]
        stated += [each.holder for each in policy.identities]
        counted = "holders of keys" if any(stated) else "distinct keys"
        counted += " and identities" if policy.identities else ""
        expected, cause = f"at most {len(holders)} {counted}", "trust-threshold-is-unreachable"
        yield finding("AOTC-E309", where, str(policy.threshold), cause=cause, expected=expected)


def check_metric_rules(policy: TrustPolicy, place: Callable[..., str]) -> Iterator[Finding]:
    """Yield AOTC-E309 for each metric without one finite limit; `place` is that of a key."""
    for name, rule in policy.metrics.items():
        limits = (rule.minimum, rule.maximum) if isinstance(rule, MetricRule) else (rule, None)
        stated = [limit for limit in limits if limit is not None]
        if len(stated) != 1 or not math.isfinite(stated[0]):
            found = " and ".join(map(str, stated)) or "neither"
            yield problem("metrics", place("metrics", name), found)


def _as_it_looks(text: str) -> str:
    """Return a text without differences in case, composition, spaces and invisible characters."""
    folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "ZC")


def no_metric(manifest: BundleManifest, name: str, where: str) -> Finding:
    """Return a finding (AOTC-E337) for a required metric that a target was built without."""
    entries = manifest.entry_points.items()
    known = [f"{owner}.{e.metric}" for owner, entry in entries for e in entry.evaluations or ()]
    owner, _, metric = name.partition(".")
    own = (each for each in known if each.startswith(f"{owner}.") and each.endswith(f":{metric}"))
    close = next(own, closest(name, known))
    found, hint = ", ".join(known) or "no metrics", f"did you mean `{close}`?" if close else None
    if name in known:
        found, hint = f"{metric} was not evaluated", None
    cause = "metric-was-not-recorded"
    if owner not in manifest.entry_points:
        cause = "metric-names-an-unknown-entry-point"
    return finding("AOTC-E337", where, found, cause=cause, expected=name, hint=hint)
