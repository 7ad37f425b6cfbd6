"""The release that runs a target, and the effect of certificates on its findings.

Imported only where a policy names certifiers and a target does not fit by itself.
"""

from msgspec import UNSET

from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, engine_name
from aotc_runtime.schema.certified_releases import JAXLIB, AskCertificates, Certified, Release
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts


def by_certificates(
    findings: tuple[Finding, ...],
    manifest: BundleManifest,
    host: HostFacts,
    certificates: AskCertificates,
) -> tuple[tuple[Finding, ...], Certified | None]:
    """Return the findings that certificates leave, and the certificate that counts.

    Certificates are read only if the target does not accept what runs it on the host.
    """
    code, release = not_accepted(manifest), running(manifest, host)
    if release is None or all(finding.code != code for finding in findings):
        return findings, None
    ruling = certificates(manifest, release)
    if ruling.certified is None:
        return (*findings, *ruling.findings), None
    return tuple(finding for finding in findings if finding.code != code), ruling.certified


def not_accepted(manifest: BundleManifest) -> str:
    """Return the code of the finding for a version that a target does not accept."""
    return "AOTC-E401" if engine_name(manifest.target) == XLA else "AOTC-E403"


def running(manifest: BundleManifest, host: HostFacts) -> Release | None:
    """Return the release that runs a target on a host, or None.

    None if it is not installed, and for executables of several engines without XLA, since no single
    package runs all of them.
    """
    if engine_name(manifest.target) == XLA:
        return None if host.jaxlib == NOT_INSTALLED else Release(JAXLIB, host.jaxlib)
    requires = manifest.requires
    if requires.device is UNSET or requires.engines is not UNSET:
        return None
    version = host.accelerator(requires.platform).plugin
    return Release(requires.device.plugin, version) if version else None


def built_with(manifest: BundleManifest) -> str:
    """Return the version of the package that runs a target, by the build's word."""
    device = manifest.requires.device
    if engine_name(manifest.target) == XLA or device is UNSET:
        return manifest.built_with.jaxlib
    return " or ".join(device.accepts_plugin)
