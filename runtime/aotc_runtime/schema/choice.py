"""Which target of a bundle a host runs, and why: chosen by verification, shown by reports."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from aotc_runtime.errors import Finding


class MeasuredDifference(Struct, frozen=True):
    """How far a fixture's result was from its reference. label: "predict[batch=8]".  max_abs,
    max_rel: decimals.  ulp_max: units in the last place.
    """

    label: str
    max_abs: str
    max_rel: str
    ulp_max: int


class Certified(Struct, frozen=True):
    """Why a jaxlib may run that the bundle does not accept by itself: a certificate that counts.

    digest: of its envelope.  keys, names: of the certifiers that signed it.  certified_on: time,
    ISO 8601.  cpu: the processor it was made on.  differences: of every fixture, there.
    """

    jaxlib: str
    built_with: str
    digest: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    certified_on: str
    cpu: str
    differences: tuple[MeasuredDifference, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "jaxlib": self.jaxlib,
            "built_with": self.built_with,
            "certificate": self.digest,
            "keys": list(self.keys),
            "names": list(self.names),
            "certified_on": self.certified_on,
            "cpu": self.cpu,
            "differences": [
                {
                    "label": difference.label,
                    "max_abs": difference.max_abs,
                    "max_rel": difference.max_rel,
                    "ulp_max": difference.ulp_max,
                }
                for difference in self.differences
            ],
        }


class Ruling(Struct, frozen=True):
    """What certificates say of a target and a jaxlib: one that counts, or why none does."""

    certified: Certified | None
    findings: tuple[Finding, ...]


class Candidate(Struct, frozen=True):
    """A target that was judged. features: how many processor features its executables use.
    findings: why it may not run here; none if it may.  certified: by which certificate, if the
    running jaxlib is accepted by one.
    """

    target: str
    features: int
    findings: tuple[Finding, ...]
    certified: Certified | None = None


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

    @property
    def certified(self) -> Certified | None:
        """The certificate by which the running jaxlib is accepted for this target, if it is."""
        found = (c.certified for c in self.candidates if c.target == self.target)
        return next(found, None)

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
