"""`aotc certify`: runs a bundle under other releases of what runs it, and adds certificates."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from aotc.base.child_processes import Processes
from aotc.base.errors import refusal
from aotc.base.foreign_python import installed_versions
from aotc.bundle.read.opened_bundle import open_attributed
from aotc.bundle.sign.attestation import attest, certificate_by
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.added_attestations import with_attestations
from aotc.bundle.write.atomic_files import tidy
from aotc.commands.certify.certify_process import Job, Trial, run
from aotc.pipeline.scratch_folder import scratch_folder
from aotc_runtime.base.errors import Finding, IncompatibleHostError, ResourceError
from aotc_runtime.formats.certificate_predicate import SCHEMA, Surroundings
from aotc_runtime.formats.in_toto import CERTIFICATE_TYPE
from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, Parity, engine_of
from aotc_runtime.schema.certified_releases import JAXLIB, Release
from aotc_runtime.schema.host_facts import VERSION
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_runtime.verification.host_compatibility import wanted_facts
from aotc_runtime.verification.host_findings import missing_target
from aotc_runtime.verification.public_keys import load_public_key

OnFixture = Callable[[str, int, int], None]
"""Given "jaxlib 0.12.0", how many fixtures have run under it, and how many there are."""

RUNTIME = "aotc-runtime"
"""The distribution of aotc_runtime."""

NOT_TOLD = Surroundings(cpu="", isa=(), os="", libc="", python="", runtime="", packages={})
"""Where a process ran that died before it could say."""


@dataclass(frozen=True, slots=True)
class Certification:
    """The result of certifying a bundle.

    trials: one for each environment and target, in the order given.  missing: why nothing could run
    in an environment.  key_id: of the signer of the certificates that were added, or "".
    added: how many certificates.  parity: as the build measured it, by target and label.
    """

    name: str
    version: str
    root_digest: str
    trials: tuple[Trial, ...]
    missing: tuple[Finding, ...]
    key_id: str
    added: int
    parity: Mapping[tuple[str, str], Parity]


def certify(
    path: Path,
    pythons: Sequence[Path],
    policy: TrustPolicy,
    target: str | None,
    signer: Signer | None,
    *,
    seconds: float,
    finished: Callable[[], datetime],
    on_fixture: OnFixture,
) -> Certification:
    """Run every fixture in each environment, and add a signed certificate of each result.

    Each environment runs the targets whose package it has, under its release of that package. A
    fixture that fails is in the result, not raised.

    Args:
        path: The bundle.
        pythons: Interpreters of the environments.
        policy: Must accept the bundle before any of it is run.
        target: Of the bundle; None for all.
        signer: None to add no certificates.
        seconds: Limit for one target in one environment.
        finished: Returns the time that certificates state.
        on_fixture: Called with progress.

    Raises:
        BundleFormatError, IntegrityError, TrustError, UsageError: The bundle cannot be certified.
        IncompatibleHostError: AOTC-E505.
    """
    tidy(path.resolve())
    # Refuses a bundle that nobody vouches for before anything is run. What the policy and this
    # host say of each target is for the worker to find out, which verifies it.
    read = open_attributed(open_streamed(path), policy, time.time())
    root, contents = read.root_digest, read.contents
    targets = certifiable(contents.manifests, target, contents.absent)
    jobs = [_job(path, policy, root, package, manifest) for package, manifest in targets]
    processes = Processes()
    trials: list[Trial] = []
    missing: list[Finding] = []
    with scratch_folder() as folder:
        for python in dict.fromkeys(pythons):
            try:
                versions = versions_there(python, [job.package for job in jobs])
            except ResourceError as error:
                missing += error.findings
                continue
            able = [job for job in jobs if job.package in versions]
            total, before = sum(job.fixtures for job in able), 0
            for job in able:
                release = Release(job.package, versions[job.package])
                ran = _counting(on_fixture, str(release), before, total)
                ran(0)
                trials.append(run(python, folder, release, job, seconds, ran, processes))
                before += job.fixtures
    subject = f"{read.name}-{read.version}"
    results = [trial for trial in trials if trial.outcome]
    if signer is not None and results:
        made = [
            attest(root, subject, predicate_of(trial, finished()), signer, CERTIFICATE_TYPE)
            for trial in results
        ]
        with_attestations(path, root, [a.envelope for a in made], _is_older(results, signer))
    return Certification(
        name=read.name,
        version=read.version,
        root_digest=root,
        trials=tuple(trials),
        missing=tuple(missing),
        key_id=signer.key_id if signer is not None and results else "",
        added=len(results) if signer is not None else 0,
        parity={
            (manifest.target.name, label(name, profile.sizes)): profile.parity
            for manifest in contents.manifests.values()
            for name, entry_point in manifest.entry_points.items()
            for profile in entry_point.profiles
        },
    )


def predicate_of(trial: Trial, finished: datetime) -> dict[str, Any]:
    """Return a predicate for `aotc_runtime.formats.certificate_predicate`."""
    where, release = trial.surroundings or NOT_TOLD, trial.release
    stated = {"jaxlib": "", "package": release.package, "version": release.version}
    if release.package == JAXLIB:
        stated = {"jaxlib": release.version}
    return {
        "schema": SCHEMA,
        "target": trial.target,
        **stated,
        "outcome": trial.outcome,
        "detail": trial.detail,
        "certifiedOn": finished.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "fixtures": [msgspec.to_builtins(run) for run in trial.fixtures],
        "surroundings": {
            field: msgspec.to_builtins(getattr(where, field))
            for field in Surroundings.__struct_fields__
        },
    }


def certifiable(
    manifests: Mapping[str, BundleManifest], target: str | None, absent: Sequence[str]
) -> list[tuple[str, BundleManifest]]:
    """Return the requested targets all of whose executables one package runs, with that package.

    Raises IncompatibleHostError (AOTC-E505).
    """
    if target is not None and target not in manifests:
        raise IncompatibleHostError(missing_target(manifests, target, absent))
    asked = sorted(manifests) if target is None else [target]
    packages = {name: sorted(accepted_versions(manifests[name])) for name in asked}
    wanted = [(only, manifests[name]) for name, (only, *more) in packages.items() if not more]
    if not wanted:
        found = "; ".join(dict.fromkeys(f"code for {' and '.join(packages[n])}" for n in asked))
        cause, expected = "target-runs-with-several-packages", "code for one package"
        raise refusal("AOTC-E505", ", ".join(asked), found, cause=cause, expected=expected)
    return wanted


def accepted_versions(manifest: BundleManifest) -> Mapping[str, tuple[str, ...]]:
    """Return the accepted versions by package, one for each engine of the target."""
    requires = manifest.requires
    needs = {requires.platform: requires.device, **(requires.engines or {})}
    found: dict[str, tuple[str, ...]] = {}
    for platform, device in needs.items():
        if engine_of(platform) == XLA or device is UNSET:
            found[JAXLIB] = manifest.accepts_jaxlib
        else:
            found[device.plugin] = device.accepts_plugin
    return found


def versions_there(python: Path, packages: Sequence[str]) -> Mapping[str, str]:
    """Return the versions of an environment's packages, of which it has at least one.

    Raises ResourceError (AOTC-E559), also where its aotc-runtime is of another version than this.
    """
    there = installed_versions(python, [RUNTIME, *packages])
    if there.get(RUNTIME) == VERSION and len(there) > 1:
        return there
    names = " or ".join(dict.fromkeys(packages))
    raise refusal(
        "AOTC-E559",
        str(python),
        ", ".join(f"{name} {version}" for name, version in there.items()) or "neither",
        expected=f"{RUNTIME} {VERSION}, and {names}",
        hint=f"run `{python} -m pip install {RUNTIME}=={VERSION} {packages[0]}==VERSION`",
    )


def _job(path: Path, policy: TrustPolicy, root: str, package: str, manifest: BundleManifest) -> Job:
    return Job(
        bundle=str(path.resolve()),
        policy=policy,
        target=manifest.target.name,
        package=package,
        accepted=accepted_versions(manifest)[package][-1],
        root_digest=root,
        fixtures=sum(len(e.profiles) for e in manifest.entry_points.values()),
        platforms=wanted_facts({manifest.target.name: manifest}, None).platforms,
        devices=manifest.requires.devices,
    )


def _counting(
    on_fixture: OnFixture, release: str, before: int, total: int
) -> Callable[[int], None]:
    return lambda count: on_fixture(release, before + count, total)


def _is_older(results: Sequence[Trial], signer: Signer) -> Callable[[bytes], bool]:
    """Return a predicate of envelopes: an older certificate, by this key, of this run's results."""
    now = {(trial.target, trial.release) for trial in results}
    key = load_public_key(signer.public_pem(), "", "signer")

    def is_older(envelope: bytes) -> bool:
        read = certificate_by(envelope, key)
        return read is not None and (read.target, read.release) in now

    return is_older
