"""One difference of two bundles, and the kinds that there are."""

from __future__ import annotations

from dataclasses import dataclass

NONE = "-"
"""What is not there."""

PROOF_ERRORS = "proof errors"
"""How the path of a change ends that is about the errors of trials."""

KINDS = {
    "identity": "name, version, format",
    "targets": "targets that one of them lacks, and what a target is compiled for",
    "toolchain": "versions of what compiled, and the accepted jaxlib",
    "weights": "tensors and their files",
    "interface": "entry points: parameters, inputs, outputs, dimensions, policies, tolerances",
    "profiles": "profiles that one of them lacks",
    "module": "StableHLO",
    "operations": "operations of modules, by name",
    "executable": "the bytes of executables",
    "compilation": "options of the compiler",
    "placement": "who does which part of the work",
    "fixture": "what executables were checked with",
    "parity": "how they compared with plain JAX",
    "coverage": "lines of the program that were traced",
    "evidence": "the evidence, where nothing else of it is listed",
}
"""Kinds of changes; those that are numbers are listed in `diff_numbers`."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. place: an executable, entry point, target, …, or "" for the bundle.  path:
    what of it differs, or "".  before, after: as text, "-" for a missing one.  numbers: both, if
    they are numbers that both bundles tell.
    """

    kind: str
    place: str
    path: str
    before: str
    after: str
    numbers: tuple[int, int] | None = None

    @property
    def is_rounding(self) -> bool:
        """Whether it is about an error against plain JAX, within the tolerance on both sides."""
        if NONE in (self.before, self.after):
            return False
        is_error = self.path in ("max_abs", "max_rel") or self.path.endswith(PROOF_ERRORS)
        return self.kind == "ulp" or (self.kind == "parity" and is_error)

    @property
    def where(self) -> str:
        """Both, as text."""
        return f"{self.place} {self.path}".strip()
