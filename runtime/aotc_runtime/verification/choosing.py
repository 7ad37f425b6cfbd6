"""docs/trust.md 8 to 10 for each target of a bundle: which of them runs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from aotc_runtime.errors import Finding
from aotc_runtime.schema.facts import HostFacts, Wanted
from aotc_runtime.schema.manifest import BundleManifest, engine_name
from aotc_runtime.schema.proof import Candidate, Choice
from aotc_runtime.verification.compatibility import check_host

if TYPE_CHECKING:
    from aotc_runtime.schema.certified import Ruling

NOT_ACCEPTED = "AOTC-E401"

type AskCertificates = Callable[[BundleManifest, str], Ruling]
"""What certificates say of a target under a version of jaxlib."""


def choose_target(
    manifests: Mapping[str, BundleManifest],
    host: HostFacts,
    wanted: str | None,
    absent: Sequence[str] = (),
    certificates: AskCertificates | None = None,
) -> Choice:
    """The target to run and why it may not; a wanted one, or the best this host can run.

    Best: no findings, then an accelerator, then the most processor features, then the name. If no
    target fits, the findings of every target are returned together.  absent: what this copy of the
    bundle lacks.
    certificates: asked only of a target that does not accept the host's jaxlib by itself; None if
    none may count.
    """
    if wanted is not None and wanted not in manifests:
        from aotc_runtime.verification.missing_targets import missing_target

        return Choice(wanted, True, (missing_target(manifests, wanted, absent),), (), tuple(absent))
    judged = manifests if wanted is None else {wanted: manifests[wanted]}
    ranked = sorted(
        (_judge(name, manifest, host, certificates) for name, manifest in judged.items()),
        key=lambda candidate: (
            bool(candidate.findings),
            manifests[candidate.target].target.device is UNSET,
            -candidate.features,
            candidate.target,
        ),
    )
    best = ranked[0]
    findings: tuple[Finding, ...] = ()
    if best.findings:
        findings = tuple(finding for candidate in ranked for finding in candidate.findings)
    return Choice(best.target, wanted is not None, findings, tuple(ranked), tuple(absent))


def _judge(
    name: str, manifest: BundleManifest, host: HostFacts, certificates: AskCertificates | None
) -> Candidate:
    findings = tuple(check_host(manifest, host))
    features = len(manifest.requires.isa)
    if certificates is None or all(finding.code != NOT_ACCEPTED for finding in findings):
        return Candidate(name, features, findings)
    ruling = certificates(manifest, host.jaxlib)
    if ruling.certified is None:
        return Candidate(name, features, (*findings, *ruling.findings))
    others = tuple(finding for finding in findings if finding.code != NOT_ACCEPTED)
    return Candidate(name, features, others, ruling.certified)


def wanted_of(manifests: Mapping[str, BundleManifest], target: str | None) -> Wanted:
    """What has to be known of a host to judge this target, or to choose one."""
    devices = 1
    platforms: dict[str, set[str]] = {}
    for name, manifest in manifests.items():
        if target in (None, name):
            requires = manifest.requires
            known = platforms.setdefault(engine_name(manifest.target), set())
            if requires.device is UNSET:
                devices = max(devices, requires.devices)
            else:
                known.add(requires.platform)
    return Wanted(devices, {name: tuple(sorted(known)) for name, known in platforms.items()})
