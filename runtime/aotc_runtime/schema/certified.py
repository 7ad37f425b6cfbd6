"""What certificates say of a target and a jaxlib, as values."""

from __future__ import annotations

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


class Ruling(Struct, frozen=True):
    """What certificates say of a target and a jaxlib: one that counts, or why none does."""

    certified: Certified | None
    findings: tuple[Finding, ...]
