"""Targets of a bundle x jaxlib versions x hosts: what runs where, and how that is known.

The answer whether a target runs is the loader's own (`choose_target`); this adds what to build
where none runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import UNSET

from aotc.base.errors import finding
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.certified_releases import AskCertificates, Certified, Release
from aotc_runtime.schema.host_facts import HostFacts
from aotc_runtime.system import processor_check
from aotc_runtime.verification.engine_releases import not_accepted, running
from aotc_runtime.verification.host_compatibility import Candidate, choose_target

NO_EVIDENCE = ("AOTC-E411", "AOTC-E412", "AOTC-E414")
"""Reasons why no certificate counts; that it was tried and failed (E413) is none of them."""


class Level(StrEnum):
    """The degree to which a target suits a host.

    USABLE: it runs.  UNKNOWN: nothing is in its way but that what runs it there is of none of the
    accepted versions, and no certificate that counts is for it, so that the loader refuses it.
    NO: it does not run.
    """

    USABLE = "usable"
    UNKNOWN = "unknown"
    NO = "no"


@dataclass(frozen=True, slots=True)
class BuildParity:
    """Fixtures that the build ran against plain JAX.

    `ran` of `all` ran, the others not for `reason` ("" if none); `ulp_max` is the largest distance.
    """

    ran: int
    all: int
    ulp_max: int
    reason: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Contents of a certificate, before its signature is evaluated.

    `keys` are the ids that it claims; `outcome` is as in
    `aotc_runtime.formats.certificate_predicate`; `ulp_max` the largest distance from a reference.
    """

    target: str
    package: str
    version: str
    outcome: str
    certified_on: str
    cpu: str
    keys: tuple[str, ...]
    ulp_max: int


@dataclass(frozen=True, slots=True)
class PolicyChecks:
    """Checks by a trust policy.

    `certificates` returns those about a target and a release; `check_runtime` the policy's findings
    against a host's runtime, for targets of these engines.
    """

    certificates: AskCertificates | None
    check_runtime: Callable[[HostFacts, Set[str]], Iterable[Finding]]


NO_POLICY = PolicyChecks(None, lambda facts, engines: ())


@dataclass(frozen=True, slots=True)
class Evidence:
    """The reasons for a compatibility level.

    Attributes:
        engine: The engine that runs the executables.
        compiled_by: The packages of their compiler, with versions.
        built_with: The jaxlib version of the build.
        accepts_jaxlib: The jaxlib versions that the target accepts.
        required_features: The processor features that the target needs.
        missing_features: Those that the host lacks.
        parity_at_build: The measurements of the build.
        certified: The accepted certificate for the release that runs the target there, if any.
        certificates: All claims of the bundle about this target and that release.
    """

    engine: str
    compiled_by: str
    built_with: str
    accepts_jaxlib: tuple[str, ...]
    required_features: tuple[str, ...]
    missing_features: tuple[str, ...]
    parity_at_build: BuildParity
    certified: Certified | None
    certificates: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A target on a host with a jaxlib; `findings` are all reasons why it does not run."""

    target: str
    level: Level
    findings: tuple[Finding, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Row:
    """A host with a jaxlib.

    `cells` has every target, best first, and `runs` the target that the loader takes, or None.
    Where none runs, `build_for` has known targets that would, best first; empty if none can.
    """

    host: str
    facts: HostFacts
    cells: tuple[Cell, ...]
    runs: str | None
    build_for: tuple[str, ...]

    @property
    def level(self) -> Level:
        """The level of the target that runs, or of the one that comes closest."""
        return self.cells[0].level


def matrix(
    manifests: Mapping[str, bundle_manifest.BundleManifest],
    hosts: Mapping[str, HostFacts],
    jaxlibs: Sequence[str],
    known: Sequence[bundle_manifest.Target],
    claims: Sequence[Claim] = (),
    checks: PolicyChecks = NO_POLICY,
) -> tuple[Row, ...]:
    """Evaluate every target on every host.

    `manifests` are by target, at least one, `hosts` by name. `jaxlibs` are assumed on each host
    instead of its own, if any. `known` are targets that could be built for. `claims` are of the
    bundle's certificates; `checks` selects those that count, and has other reasons against a host.
    """
    return tuple(
        _row(name, facts, manifests, known, claims, checks)
        for name, found in hosts.items()
        for jaxlib in dict.fromkeys(jaxlibs or (found.jaxlib,))
        for facts in [msgspec.structs.replace(found, jaxlib=jaxlib)]
    )


def _row(
    host: str,
    facts: HostFacts,
    manifests: Mapping[str, bundle_manifest.BundleManifest],
    known: Sequence[bundle_manifest.Target],
    claims: Sequence[Claim],
    checks: PolicyChecks,
) -> Row:
    choice = choose_target(manifests, facts, None, (), checks.certificates)
    engines = {
        bundle_manifest.engine_of(p) for manifest in manifests.values() for p in manifest.platforms
    }
    jaxlib = _check_jaxlib_itself(host, facts) if bundle_manifest.XLA in engines else ()
    below = (*jaxlib, *checks.check_runtime(facts, engines))
    cells = tuple(
        _cell(manifests[candidate.target], below, candidate, facts, claims)
        for candidate in choice.candidates
    )
    runs = None if below or choice.findings else choice.target
    closest = min(cells, key=lambda cell: (len(_elsewhere(cell)), cell.level is Level.NO))
    build_for: tuple[str, ...] = ()
    if runs is None and not _elsewhere(closest):
        fitting = [target for target in known if _fits(target, facts)]
        fitting.sort(key=lambda target: (-len(target.features), target.name))
        build_for = tuple(target.name for target in fitting)
    closest_first = tuple(sorted(cells, key=lambda cell: cell.level is Level.NO))
    return Row(host, facts, closest_first, runs, build_for)


def _check_jaxlib_itself(host: str, facts: HostFacts) -> Iterator[Finding]:
    """AOTC-E506, which the loader raises before it gathers any facts."""
    missing = sorted(processor_check.floor(facts.jaxlib) - facts.isa)
    if missing and facts.architecture == "x86_64":
        where, found = f"jaxlib {facts.jaxlib} on {host}", f"{facts.cpu}, without them"
        expected = f"processor features {', '.join(missing)}"
        yield finding("AOTC-E506", where, found, expected=expected)


def _elsewhere(cell: Cell) -> list[Finding]:
    """Return findings that no other target would remove: neither processor nor platform."""
    return [f for f in cell.findings if f.code not in ("AOTC-E501", "AOTC-E502")]


def _cell(
    manifest: bundle_manifest.BundleManifest,
    below: tuple[Finding, ...],
    candidate: Candidate,
    facts: HostFacts,
    claims: Sequence[Claim],
) -> Cell:
    findings = (*below, *candidate.findings)
    release = running(manifest, facts)
    if not findings:
        level = Level.USABLE
    elif release and {each.code for each in findings} <= {not_accepted(manifest), *NO_EVIDENCE}:
        level = Level.UNKNOWN
    else:
        level = Level.NO
    required = frozenset(manifest.requires.isa)
    evidence = Evidence(
        engine=" and ".join(map(bundle_manifest.engine_of, manifest.platforms)),
        compiled_by=_compiled_by(manifest),
        built_with=manifest.built_with.jaxlib,
        accepts_jaxlib=manifest.accepts_jaxlib,
        required_features=tuple(sorted(required)),
        missing_features=tuple(sorted(required - facts.isa)),
        parity_at_build=_parity(manifest),
        certified=candidate.certified,
        certificates=tuple(
            claim
            for claim in claims
            if claim.target == manifest.target.name
            and Release(claim.package, claim.version) == release
        ),
    )
    return Cell(manifest.target.name, level, findings, evidence)


def _compiled_by(manifest: bundle_manifest.BundleManifest) -> str:
    made = manifest.built_with
    if bundle_manifest.engine_name(manifest.target) != bundle_manifest.XLA:
        by = made.tools
    else:
        beside = made.tools if manifest.requires.engines else {}
        by = {"jaxlib": made.jaxlib, **beside}
    return ", ".join(f"{name} {version}" for name, version in sorted(by.items()))


def _parity(manifest: bundle_manifest.BundleManifest) -> BuildParity:
    every = [p.parity for e in manifest.entry_points.values() for p in e.profiles]
    ran = [parity for parity in every if isinstance(parity, bundle_manifest.ParityRan)]
    reasons = {
        parity.reason for parity in every if isinstance(parity, bundle_manifest.ParityNotRun)
    }
    ulp_max = max((parity.ulp_max for parity in ran), default=0)
    return BuildParity(len(ran), len(every), ulp_max, "; ".join(sorted(reasons)))


def _fits(target: bundle_manifest.Target, facts: HostFacts) -> bool:
    """Return whether a host has everything that code for a target may use."""
    has = {facts.platform, *(each.platform for each in facts.accelerators if each.devices)}
    same = target.platform in has and target.device is UNSET
    same = same and target.triple.partition("-")[0] == facts.architecture
    return same and facts.isa.issuperset(target.features)
