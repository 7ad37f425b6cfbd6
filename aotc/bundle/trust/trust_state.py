"""A trust policy at a given time: its valid keys, and whether it accepts a bundle."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aotc.base.errors import family_of, finding
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.bundle_examination import examine
from aotc_runtime.verification.certificate_rules import certifier_keys
from aotc_runtime.verification.policy_reader import policy_keys, read_policy
from aotc_runtime.verification.public_keys import KeyState, PublicKey

_STAMPED = "what it signed before counts where a timestamp says so"


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A valid policy at a time, with distinct `keys` and `certifiers` in the policy's order."""

    policy: TrustPolicy
    keys: tuple[PublicKey, ...]
    now: datetime
    certifiers: tuple[PublicKey, ...] = ()

    def state(self, key: PublicKey) -> KeyState:
        """Return the state of a key at this time."""
        return key.state(self.now.timestamp())

    def valid(self, after: timedelta = timedelta()) -> list[PublicKey]:
        """Return the keys that count at that time."""
        moment = (self.now + after).timestamp()
        return [key for key in self.keys if key.state(moment) == "valid"]


def state_of(policy: TrustPolicy, now: datetime, where: str) -> PolicyState:
    """Return a policy at a moment. Raises TrustError (AOTC-E309, E310)."""
    keys = tuple(policy_keys(policy, where).values())
    return PolicyState(policy, keys, now, tuple(certifier_keys(policy, where).values()))


def holders_in(policy: TrustPolicy) -> list[str]:
    """Return the holders of keys, each once, in order; keys of nobody by their own names."""
    ids = policy_keys(policy).values()
    return [*dict.fromkeys(key.label if key.holder == key.id else key.holder for key in ids)]


def check_reachable(state: PolicyState, within: timedelta, where: str) -> Iterator[Finding]:
    """AOTC-E321: keys of as many holders as the threshold count now, and will after `within`."""
    for after, when in ((timedelta(), "now"), (within, f"in {_days(within)}")):
        valid = state.valid(after)
        count = len({key.holder for key in valid})
        if count < state.policy.threshold:
            missing = [key for key in state.keys if key not in valid]
            found = f"{count}; not {', '.join(_why(state, key, after) for key in missing)}"
            yield finding(
                "AOTC-E321",
                f"{where} threshold",
                found,
                cause="trust-threshold-will-become-unreachable" if after else "",
                threshold=state.policy.threshold,
                when=when,
            )
            return


def warnings(state: PolicyState, within: timedelta) -> Iterator[str]:
    """Yield a note for each key that needs attention."""
    yield from _role_notes(state)
    for table, keys in (("keys", state.keys), ("certifiers", state.certifiers)):
        kind = "key" if table == "keys" else "certifier"
        # Of certifiers nobody asks when they signed.
        stamped = table == "keys" and bool(state.policy.timestamp_authorities)
        for key in keys:
            match state.state(key):
                case "revoked" if stamped and not key.revoked:
                    since = _time(key.revoked_since)
                    yield f"{kind} {key.label} is revoked since {since}: {_STAMPED}"
                case "revoked" if not key.revoked:
                    yield (
                        f"{kind} {key.label} is in {table}, and revoked since "
                        f"{_time(key.revoked_since)}: it no longer counts"
                    )
                case "revoked":
                    yield (f"{kind} {key.label} is in {table} and in revoked.keys: it never counts")
                case "expired" if stamped:
                    yield f"{kind} {key.label} has expired on {_time(key.not_after)}: {_STAMPED}"
                case "expired":
                    since = _time(key.not_after)
                    yield f"{kind} {key.label} has expired on {since}: it may be removed"
                case "not yet valid":
                    yield f"{kind} {key.label} does not count before {_time(key.not_before)}"
                case "valid" if key.not_after is not None and key.not_after < state.now + within:
                    end = _time(key.not_after)
                    yield f"{kind} {key.label} expires on {end}, within {_days(within)}"


def _role_notes(state: PolicyState) -> Iterator[str]:
    """Yield notes on roles of keys that this policy leaves open."""
    policy = state.policy
    unheld = [key.label for key in state.keys if key.holder == key.id]
    if policy.threshold > 1 and unheld:
        yield (
            f"keys without a holder count separately: {', '.join(unheld)}; state the `holder` of "
            "each, so that two keys of one holder count once"
        )
    if policy.asks_about_builds() and not policy.binds_builders() and len(state.keys) > 1:
        yield (
            "every key may describe a build of any builder: state which builders each key may "
            "describe (builders; [] for keys that only endorse)"
        )


def _why(state: PolicyState, key: PublicKey, after: timedelta) -> str:
    then = key.state((state.now + after).timestamp())
    bound = {"expired": key.not_after, "not yet valid": key.not_before}.get(then)
    return f"{key.label} ({then}{f' {_time(bound)}' if bound else ''})"


def _time(moment: datetime | None) -> str:
    assert moment is not None, "a key without the bound does not get here"
    try:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:  # within a day of the years that there are
        return moment.isoformat()


def _days(span: timedelta) -> str:
    return "1 day" if span.days == 1 else f"{span.days} days"


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked policy.

    `document` is for `--json`, without the findings; `lines` are shown if there are no findings.
    """

    findings: tuple[Finding, ...]
    exit_code: int
    document: dict[str, Any]
    lines: tuple[str, ...]


def check_policy(path: Path, bundle: Path | None, within: int) -> Checked:
    """Check a policy and, if one is given, whether it accepts a bundle.

    `within` is the days from now for which its threshold has to be reachable. Raises TrustError
    (AOTC-E308 to E310) for a policy that cannot be used at all, BundleFormatError for a bundle that
    cannot be opened; other problems are in the result.
    """
    now = datetime.now(UTC)
    policy = read_policy(path)
    state = state_of(policy, now, str(path))
    ahead = timedelta(days=within)
    findings = [*check_reachable(state, ahead, str(path))]
    notes = list(warnings(state, ahead))
    document: dict[str, Any] = {
        "policy": str(path),
        "threshold": policy.threshold,
        "valid": len(state.valid()),
        "warnings": notes,
        "bundle": None,
    }
    lines = [_summary(path, state), *(f"warning  {note}" for note in notes)]
    if bundle is not None:
        verdict = examine(open_streamed(bundle), policy, detect_all(), now.timestamp())
        accepted = "policy" in verdict.gates
        if not accepted:
            findings += verdict.findings
        document["bundle"] = {
            "path": str(bundle),
            "root_digest": verdict.root_digest or None,
            "signers": list(verdict.signers),
            "accepted": accepted,
        }
        lines.append(f"accepts  {bundle}, {verdict.root_digest}")
    exit_code = family_of(findings[0].code).exit_code if findings else 0
    return Checked(tuple(findings), exit_code, document, tuple(lines))


def _summary(path: Path, state: PolicyState) -> str:
    valid, wanted = state.valid(), state.policy.threshold
    holders = {key.holder for key in valid}
    are_keys = all(key.holder == key.id for key in valid)
    counted = f"{len(valid)} valid keys" if are_keys else f"{len(holders)} holders of valid keys"
    return f"ok       {path}: {wanted} of {counted} have to sign {state.policy.name}"
