"""`aotc trust check`: whether a policy is sound, and whether it accepts a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aotc.base.errors import family_of
from aotc.bundle.trust.trust_state import PolicyState, check_reachable, state_of, warnings
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_examination import Verdict, examine
from aotc_runtime.verification.policy_reader import read_policy


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked policy. document: for `--json`, without the findings.  lines: for people, shown if
    there are no findings.
    """

    findings: tuple[Finding, ...]
    exit_code: int
    document: dict[str, Any]
    lines: tuple[str, ...]


def check_policy(path: Path, bundle: Path | None, within: int) -> Checked:
    """Check a policy and, if one is given, whether it accepts a bundle.

    within: days from now for which its threshold has to be reachable.

    Raises TrustError (AOTC-E308 to E310) for a policy that cannot be used at all, BundleFormatError
    for a bundle that cannot be opened; what else is wrong is in the result.
    """
    now = datetime.now(UTC)
    policy = read_policy(path)
    state = state_of(policy, now, str(path))
    ahead = timedelta(days=within)
    findings = [*check_reachable(state, ahead, str(path))]
    notes = warnings(state, ahead)
    document: dict[str, Any] = {
        "policy": str(path),
        "threshold": policy.threshold,
        "valid": len(state.valid()),
        "warnings": [*notes],
        "bundle": None,
    }
    lines = [_summary(path, state), *(f"warning  {note}" for note in notes)]
    if bundle is not None:
        verdict = examine(look_into(bundle), policy, detect_all(), now.timestamp())
        accepted = "policy" in verdict.gates
        if not accepted:
            findings += verdict.findings
        document["bundle"] = _bundle_document(bundle, verdict, accepted)
        lines.append(f"accepts  {bundle}, {verdict.root_digest}")
    exit_code = family_of(findings[0].code).exit_code if findings else 0
    return Checked(tuple(findings), exit_code, document, tuple(lines))


def _summary(path: Path, state: PolicyState) -> str:
    valid, wanted = state.valid(), state.policy.threshold
    holders = {key.holder for key in valid}
    are_keys = all(key.holder == key.id for key in valid)
    counted = f"{len(valid)} valid keys" if are_keys else f"{len(holders)} holders of valid keys"
    return f"ok       {path}: {wanted} of {counted} have to sign {state.policy.name}"


def _bundle_document(bundle: Path, verdict: Verdict, accepted: bool) -> dict[str, Any]:
    return {
        "path": str(bundle),
        "root_digest": verdict.root_digest or None,
        "signers": list(verdict.signers),
        "accepted": accepted,
    }
