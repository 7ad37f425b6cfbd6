"""Which target of a bundle a host runs, and why that one: made by verification, told by reports."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from aotc_runtime.errors import Finding


class Candidate(Struct, frozen=True):
    """A target that was judged. features: how many processor features its executables use.
    findings: why it may not run here; none if it may.
    """

    target: str
    features: int
    findings: tuple[Finding, ...]


class Choice(Struct, frozen=True):
    """The target to run, or the one that comes closest.

    named: whether the caller asked for it; otherwise it is the one with the most processor features
    among those that fit.  findings: why it may not run; if none was named and none fits, those of
    all.  candidates: what was judged, best first.  absent: targets that were signed with the others
    and left out of this copy of the bundle.
    """

    target: str
    named: bool
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    absent: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """rule: "named" or "most processor features"."""
        return {
            "rule": "named" if self.named else "most processor features",
            "candidates": [
                {
                    "target": candidate.target,
                    "fits": not candidate.findings,
                    "features": candidate.features,
                    "findings": [finding.to_json() for finding in candidate.findings],
                }
                for candidate in self.candidates
            ],
            "absent": list(self.absent),
        }
