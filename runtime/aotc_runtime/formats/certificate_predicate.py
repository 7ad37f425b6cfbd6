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
    """The environment of a run: `cpu` and `isa` as in `HostFacts`, versions of all packages."""

    cpu: str
    isa: tuple[str, ...]
    os: str
    libc: str
    python: str
    runtime: str
    packages: dict[str, str]


class Certificate(Struct, frozen=True):
    """One target under one release.

    `jaxlib` is the version that ran; "" for another engine, with its `package` and `version`
    instead. `outcome` is one of those above; any other fails. `detail` describes a failure to the
    reader. `certifiedOn` is by the certifier's clock.
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
