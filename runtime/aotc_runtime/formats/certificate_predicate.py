"""The predicate of a certificate: how a target of a bundle ran under one version of what runs it.

Its type is `aotc_runtime.formats.in_toto.CERTIFICATE_TYPE`; bundle-format.md has the fields.
Only read where the running version is none of those that a bundle accepts by itself.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from aotc_runtime.schema.certified_releases import JAXLIB, Release

SCHEMA = 1
"""Counts up when a field changes its meaning or goes away."""

PASSED = "passed"
BEYOND = "beyond tolerance"
REFUSED = "refused"
CRASHED = "crashed"
HUNG = "hung"
"""Outcomes: every fixture within its tolerance; one or more beyond it; the runtime or XLA said why
it will not; the process died; it did not end in time."""


Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class FixtureRun(Struct, frozen=True):
    """An executable that ran its fixture.

    Attributes:
        label: such as "predict[batch=8]".
        executable, fixture: digests.
        maxAbs, maxRel: largest errors, as decimals.
        ulpMax: largest distance in units in the last place.
        seconds: of running and comparing.
    """

    label: str
    executable: str
    fixture: str
    withinTolerance: bool
    maxAbs: str
    maxRel: str
    ulpMax: Number
    elements: Number
    worst: str
    seconds: str


class Surroundings(Struct, frozen=True):
    """Where it ran. cpu, isa: as in `HostFacts`.  packages: name to version, all of them."""

    cpu: str
    isa: tuple[str, ...]
    os: str
    libc: str
    python: str
    runtime: str
    packages: dict[str, str]


class Certificate(Struct, frozen=True):
    """One target under one release.

    jaxlib: the version that ran; "" where it was another engine's package, which package and
    version state then.  outcome: one of those above; another one is no pass.  detail: for people,
    what happened if it did not pass.  certifiedOn: by the certifier's clock.
    """

    schema: Annotated[int, Meta(ge=SCHEMA, le=SCHEMA)]
    target: str
    jaxlib: str
    outcome: str
    detail: str
    certifiedOn: Annotated[datetime, Meta(tz=True)]
    fixtures: tuple[FixtureRun, ...]
    surroundings: Surroundings
    package: str = ""
    version: str = ""

    @property
    def release(self) -> Release:
        """The release that ran the target."""
        if self.jaxlib:
            return Release(JAXLIB, self.jaxlib)
        return Release(self.package, self.version)
