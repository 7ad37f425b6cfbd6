"""Values that certificates state about a target and a release of its engine."""

from collections.abc import Callable

from msgspec import Struct

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import BundleManifest

JAXLIB = "jaxlib"
"""The package that runs the executables of XLA."""


class Release(Struct, frozen=True):
    """A version of a package that runs executables, both as its distribution spells them."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class MeasuredDifference(Struct, frozen=True):
    """The distance between a fixture's result and its reference.

    `label` is such as "predict[batch=8]", `max_abs` and `max_rel` are decimals, and `ulp_max`
    counts units in the last place.
    """

    label: str
    max_abs: str
    max_rel: str
    ulp_max: int


class Certified(Struct, frozen=True):
    """The certificate by which a target may run under a release that it does not accept itself.

    `built_with` is the version of that package which the target accepts. `digest` is of the
    envelope. `keys` and `names` are of the certifiers that signed it. `certified_on` is a time in
    ISO 8601, `cpu` the processor of the run, and `differences` are those of every fixture there.
    """

    release: Release
    built_with: str
    digest: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    certified_on: str
    cpu: str
    differences: tuple[MeasuredDifference, ...]


class Ruling(Struct, frozen=True):
    """The certificate that counts for a target and a release, or why none does."""

    certified: Certified | None
    findings: tuple[Finding, ...]


type AskCertificates = Callable[[BundleManifest, Release], Ruling]
"""A function that asks certificates about a target and a release of its package."""
