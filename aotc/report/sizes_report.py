"""Sizes of an entry point: as commands take them, and calls of other sizes than its profiles'."""

from collections.abc import Sequence
from typing import Any

import msgspec

from aotc.base.errors import refusal
from aotc_runtime.base import ulps
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.fallback_policies import policies_of


def shapes_report(entry_point: bundle_manifest.EntryPoint) -> dict[str, Any]:
    """Relations, policies by dimension with their proof in short, specialised dimensions."""
    return {
        "relations": list(entry_point.relations),
        "out_of_profile": {d: policy.value for d, policy in policies_of(entry_point).items()},
        "policies": {name: _policy(p) for name, p in entry_point.out_of_profile.items()},
        "specialized": entry_point.specialized,
    }


def _policy(policy: bundle_manifest.DimensionPolicy) -> dict[str, Any]:
    if isinstance(policy, bundle_manifest.CompileHere):
        kept = {"most": policy.most, "seconds": policy.seconds}
        meanwhile = None if policy.meanwhile is msgspec.UNSET else _policy(policy.meanwhile)
        return {"policy": "compile", **kept, "meanwhile": meanwhile}
    if isinstance(policy, bundle_manifest.Split):
        return {"policy": "split", "proof": _proof(policy.proof)}
    if isinstance(policy, bundle_manifest.Range):
        return {"policy": "range"}
    given = {"fill": policy.fill, "mask": policy.mask, "length": policy.length}
    return {"policy": "pad", **given, "proof": _proof(policy.proof)}


def _proof(trials: Sequence[bundle_manifest.Trial]) -> dict[str, Any]:
    """Return how many trials, of what, and the worst numbers of any."""
    return {
        "trials": len(trials),
        "ran": sorted({trial.ran.value for trial in trials}),
        "fills": sorted({trial.fill for trial in trials if trial.fill}),
        "max_abs": max((trial.max_abs for trial in trials), key=float, default="0"),
        "max_rel": max((trial.max_rel for trial in trials), key=float, default="0"),
        "ulp_max": max((trial.ulp_max for trial in trials), default=0),
    }


def masks_and_lengths(report: dict[str, Any]) -> dict[str, str]:
    """Return the masks and lengths by path, as the report shows them."""
    policies = list(report["policies"].values())
    policies += [policy["meanwhile"] for policy in policies if policy.get("meanwhile")]
    paths = {policy.get(key) for policy in policies for key in ("mask", "length")}
    return {path: text for path, text in report["inputs"].items() if path in paths}


def shapes_lines(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines = [f"relations {', '.join(report['relations'])}"] if report["relations"] else []
    lines += [f"{name}: {_sentence(policy)}" for name, policy in report["policies"].items()]
    lines += [f"{name}: specialised, {reason}" for name, reason in report["specialized"].items()]
    return lines


def _sentence(policy: dict[str, Any]) -> str:
    if policy["policy"] == "compile":
        meanwhile = _sentence(policy["meanwhile"]) if policy["meanwhile"] else "fails"
        return f"compiled where that is allowed, at most {policy['most']}; until then {meanwhile}"
    if policy["policy"] == "range":
        return "one executable for all sizes"
    if policy["policy"] == "split":
        return f"split into profiles; {_evidence(policy['proof'])}"
    given = [f"{key} {policy[key]}" for key in ("mask", "length") if policy[key]]
    given += [f"{path} filled with {number}" for path, number in policy["fill"].items()]
    return f"{', '.join(['padded', *given])}; {_evidence(policy['proof'])}"


def _evidence(proof: dict[str, Any]) -> str:
    if not proof["trials"]:
        return "no accepted size needs it"
    where = "plain JAX, not run here" if proof["ran"] == ["plain-jax"] else "the executables"
    error = f"max err {float(proof['max_abs']):.1e}, {ulps(proof['ulp_max'])} ulp"
    return f"{proof['trials']} trials on {where}: {error}"


NO_SIZES = "-"
"""In place of sizes, where an entry point has none."""


def parse_profile(text: str) -> dict[str, int]:
    """`batch=8,seq=16` as sizes by name. Raises UsageError (AOTC-E014)."""
    if text.strip() == NO_SIZES:
        raise refusal("AOTC-E014", f"--profile {text}", "", cause="profile-has-no-sizes")
    sizes = {}
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not name or not (size.isascii() and size.isdecimal()) or name in sizes:
            raise refusal("AOTC-E014", f"--profile {text}", repr(part))
        sizes[name] = int(size)
    return sizes
