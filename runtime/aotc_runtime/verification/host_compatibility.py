"""Choose the target that can run on this host: verification steps 8 to 10.

Every mismatch is found before anything is deserialized.

XLA itself checks nothing of this: an executable for AVX-512 loads on a host without it and dies of
SIGILL, one built by another jaxlib loads and computes with other library kernels.

What is found is put into words by `host_findings`, which is imported for the first finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, engine_name, engine_of
from aotc_runtime.schema.host_facts import HostFacts, Wanted, version_numbers

if TYPE_CHECKING:
    from aotc_runtime.schema.certified_releases import AskCertificates, Certified


class Candidate(Struct, frozen=True):
    """A target that was evaluated.

    Attributes:
        features: number of processor features that its executables use.
        findings: why it may not run here; none if it may.
        certified: the certificate by which its version is accepted, if any.
    """

    target: str
    features: int
    findings: tuple[Finding, ...]
    certified: Certified | None = None


class Choice(Struct, frozen=True):
    """The target to run, or the one that comes closest.

    If it is not `named` by the caller, it is the one with the most processor features among those
    that fit. `findings` are why it may not run; if none was named and none fits, those of all.
    `candidates` are the evaluated targets, best first. `absent` are targets that were signed with
    the others and left out of this copy of the bundle.
    """

    target: str
    named: bool
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    absent: tuple[str, ...] = ()


GLIBC = "glibc"
GLIBC_FLOOR = (2, 27)
"""The tag of jaxlib's wheels from 0.11.2 to 0.12.0.1 is manylinux_2_27."""


def _needs_xla(manifest: BundleManifest) -> bool:
    return engine_name(manifest.target) == XLA


def check_jaxlib(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Check accepts_jaxlib: exact versions with evidence (AOTC-E401, E405).

    Only XLA's executables need jaxlib; for other engines, requires.device has the versions.
    """
    if _needs_xla(manifest) and host.jaxlib not in manifest.accepts_jaxlib:
        yield _findings().other_jaxlib(manifest, host)


def check_stablehlo(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """symbolic.stablehlo: that of modules which this host may have to compile (AOTC-E404)."""
    if any(entry_point.symbolic is not UNSET for entry_point in manifest.entry_points.values()):
        yield from _findings().newer_modules(manifest, host)


def check_format(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Check format_version against the runtime of a described host (AOTC-E402)."""
    needs, reads = version_numbers(manifest.format_version), version_numbers(host.bundle_format)
    if reads and (needs[0] != reads[0] or needs > reads):
        yield _findings().newer_format(manifest, host)


def check_platform(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Check requires.platform, requires.architecture, and the system of the triple.

    The system includes the C library (AOTC-E501).
    """
    needs = [manifest.requires.platform, manifest.requires.architecture]
    has = [_platform(manifest, host), host.architecture]
    for needed, found in zip(
        _system(manifest.target.triple), (host.os, _libc(host)[0]), strict=True
    ):
        if needed and found:
            needs.append(needed)
            has.append(found)
    if needs != has:
        yield _findings().other_platform(manifest, needs, has)


def _platform(manifest: BundleManifest, host: HostFacts) -> str:
    """Return the host's accelerator platform if it has such devices, else its processor."""
    if manifest.requires.device is UNSET:
        return host.platform
    if manifest.requires.platform in ("iree", "onnxruntime", "openvino"):
        return manifest.requires.platform  # an absent one is told apart
    has = host.accelerator(manifest.requires.platform)
    return has.platform if has.devices else host.platform


def check_libc(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Require jaxlib's minimum glibc, if the host's version is known (AOTC-E507)."""
    name, found = _libc(host)
    if _needs_xla(manifest) and name == GLIBC and found and found < GLIBC_FLOOR:
        yield _findings().older_libc(GLIBC_FLOOR, host)


def _system(triple: str) -> tuple[str, str]:
    """Return the operating system and C library of a triple, or "".

    For example "linux" and "glibc".
    """
    _, _, system, environment, *_ = (*triple.split("-"), "", "", "")
    return system, {"gnu": GLIBC, "musl": "musl"}.get(environment, "")


def _libc(host: HostFacts) -> tuple[str, tuple[int, ...]]:
    name, _, version = host.libc.partition(" ")
    return name, version_numbers(version)


def check_isa(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Check requires.isa: a subset of what the host has (AOTC-E502).

    Tuning attributes are not among them.
    """
    if missing := sorted(set(manifest.requires.isa) - host.isa):
        yield _findings().missing_features(manifest, host, missing)


def check_devices(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """requires.devices (AOTC-E503). Accelerators that are not there at all are another platform."""
    requires = manifest.requires
    if requires.device is not UNSET:
        has = host.accelerator(requires.platform).devices or requires.devices
    else:  # a processor is divided as a bundle wants, once in a process
        has = host.devices if host.devices_fixed else requires.devices
    if has < requires.devices:
        yield _findings().too_few_devices(manifest, has)


def check_device(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """requires.device and requires.engines."""
    requires = manifest.requires
    needs = {requires.platform: requires.device, **(requires.engines or {})}
    for platform, device in needs.items():
        if device is not UNSET:
            yield from _findings().device_findings(manifest, platform, device, host)


def check_custom_calls(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """Check requires.custom_call_targets: those that this runtime registers (AOTC-E504).

    Python packages behind them are checked if the host's are known (AOTC-E510).
    """
    if manifest.requires.custom_call_targets:
        yield from _findings().unserved_calls(manifest, host)


def check_memory(manifest: BundleManifest, host: HostFacts) -> Iterator[Finding]:
    """requires.memory_bytes, and what padded calls add to it (AOTC-E551)."""
    needs = manifest.requires.memory_bytes
    if any(entry_point.out_of_profile for entry_point in manifest.entry_points.values()):
        needs += _findings().padding_bytes(manifest)
    if host.memory_bytes < needs:
        yield _findings().too_little_memory(manifest, host, needs)


def _findings() -> Any:
    """Return the module with the words, imported for the first finding."""
    from aotc_runtime.verification import host_findings

    return host_findings


Check = Callable[[BundleManifest, HostFacts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    check_format,
    check_jaxlib,
    check_stablehlo,
    check_platform,
    check_libc,
    check_isa,
    check_devices,
    check_device,
    check_custom_calls,
    check_memory,
)
"""Verification steps 8 to 10, in that order."""


def check_host(manifest: BundleManifest, host: HostFacts) -> list[Finding]:
    """Return every reason why the bundle's executables may not run on this host; empty if none."""
    return [finding for check in CHECKS for finding in check(manifest, host)]


def choose_target(
    manifests: Mapping[str, BundleManifest],
    host: HostFacts,
    wanted: str | None,
    absent: Sequence[str] = (),
    certificates: AskCertificates | None = None,
) -> Choice:
    """Return the target to run and why it may not; a wanted one, or the best this host can run.

    Best: no findings, then an accelerator, then the most processor features, then the name. If no
    target fits, the findings of every target are returned together. `absent` are targets that this
    copy of the bundle lacks. `certificates` is called only for a target that does not accept the
    host's release by itself; None if none may count.
    """
    if wanted is not None and wanted not in manifests:
        missing = _findings().missing_target(manifests, wanted, absent)
        return Choice(wanted, True, (missing,), (), tuple(absent))
    evaluated = manifests if wanted is None else {wanted: manifests[wanted]}
    ranked = sorted(
        (_candidate(name, manifest, host, certificates) for name, manifest in evaluated.items()),
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


def _candidate(
    name: str, manifest: BundleManifest, host: HostFacts, certificates: AskCertificates | None
) -> Candidate:
    findings, certified = tuple(check_host(manifest, host)), None
    if certificates is not None and findings:
        from aotc_runtime.verification.engine_releases import by_certificates

        findings, certified = by_certificates(findings, manifest, host, certificates)
    return Candidate(name, len(manifest.requires.isa), findings, certified)


def wanted_facts(manifests: Mapping[str, BundleManifest], target: str | None) -> Wanted:
    """Return the facts needed to evaluate this target, or to choose one."""
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
            for platform in requires.engines or ():
                platforms.setdefault(engine_of(platform), set()).add(platform)
    return Wanted(devices, {name: tuple(sorted(known)) for name, known in platforms.items()})
