"""The report of `aotc verify` and `aotc-runtime verify`, as JSON and text."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from aotc_runtime.base import errors, ulps
from aotc_runtime.base.digest import copy_of, sha256
from aotc_runtime.base.errors import Finding, TrustError
from aotc_runtime.base.rendering import document_text
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.formats.blob_source import BlobSource
from aotc_runtime.formats.host_facts_json import host_document
from aotc_runtime.loader import bundle_sources
from aotc_runtime.loader.bundle_sources import InspectedBundle
from aotc_runtime.schema.bundle_manifest import XLA, BundleManifest, engine_name, engine_of
from aotc_runtime.schema.host_facts import NOT_INSTALLED, HostFacts
from aotc_runtime.schema.trust_policy import Channel
from aotc_runtime.system.streamed_bundle import (
    OnProgress,
    PassedMap,
    ignore_progress,
    open_streamed,
)
from aotc_runtime.verification.bundle_examination import Verdict, examine
from aotc_runtime.verification.choice_report import certified_of, certified_report, choice_report
from aotc_runtime.verification.host_compatibility import Choice
from aotc_runtime.verification.policy_reader import parse_policy, read_policy_text

HOST = "host"
"""The name that stands for the best target for this host."""

REFUSALS = (
    errors.BundleFormatError,
    errors.IntegrityError,
    TrustError,
    errors.IncompatibleRuntimeError,
    errors.IncompatibleHostError,
)
"""Errors of the bundle itself; other errors are about the command."""


class Report(Struct, frozen=True):
    """A verification result as text.

    `document` is JSON-able, without the findings; `lines` are the text if there are no findings.
    """

    findings: tuple[Finding, ...]
    exit_code: int
    document: dict[str, Any]
    lines: tuple[str, ...]


def verify_report(
    bundle: Path | str,
    trust: Path,
    target: str,
    *,
    full: bool = False,
    ca: Path | None = None,
    channel: bool = False,
    store: Path | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Report:
    """Examine a bundle on this host.

    The report has what is wrong with the bundle.

    Args:
        bundle: a path, or a reference.
        trust: the policy's file.
        target: one of the bundle's, or "host".
        full: fetch weights from a registry, too.
        ca: certificates of the registry.
        channel: whether the policy's channel must name it.
        store: afterwards has what a load of the reference needs.
        on_progress: called as the bytes of a file or folder are hashed.

    Raises:
        BundleFormatError: the bundle cannot be opened.
        TrustError: the policy cannot be read.
    """
    text = read_policy_text(trust)
    policy = parse_policy(text, trust.parent, str(trust))
    if channel:
        bundle_sources.channel_source().channel_of(policy, trust)
    now, asked = time.time(), None if target == HOST else target
    opened: AbstractContextManager[InspectedBundle]
    if isinstance(bundle, Path):
        source = open_streamed(bundle, on_progress)
        opened = nullcontext(InspectedBundle(source, str(bundle), str(bundle), {}))
    elif store is not None:
        try:
            kept = bundle_sources.fetch(
                bundle, policy, store, asked, ask=lambda _: detect_all(), kind=PassedMap, ca=ca
            )
        except REFUSALS:
            # Refused before its weights were fetched: the verdict on the rest says by which gate.
            report = verify_report(bundle, trust, target, ca=ca)
            if report.findings:
                return report
            raise
        opened = nullcontext(InspectedBundle(kept, kept.name, bundle, {}))
    else:
        opened = bundle_sources.open_for_inspection(bundle, policy, now, full=full, ca=ca)
    with opened as inspected:
        facts = detect_all()
        verdict = examine(inspected.source, policy, facts, now, asked, inspected.unread)
        report = report_of(inspected.shown, verdict, facts, inspected.note)
        report.document["policy_digest"] = sha256(text.encode())
        if policy.channel is None or report.findings:
            return report
        if not channel:
            told_of = f"channel {policy.channel.name} was not asked: --channel"
            return replace(report, lines=(*report.lines, told_of))
        return _check_channel(policy.channel, trust.parent, inspected.source, verdict, report)


def _check_channel(
    channel: Channel, folder: Path, source: BlobSource, verdict: Verdict, report: Report
) -> Report:
    """Check that the channel names a bundle that would be loaded: verification step 11.

    `folder` is the policy's.
    """
    manifest = verdict.manifest
    assert manifest is not None, "a bundle that would be loaded has one"
    try:
        index = copy_of(source.blob(verdict.root_digest) or b"")
        stamp = bundle_sources.channel_source().require_named(
            channel, folder, manifest.name, manifest.version, index
        )
    except TrustError as error:
        return Report(error.findings, error.exit_code, report.document, ())
    document = report.document | {
        "gates": [*verdict.gates, "channel"],
        "channel": {"name": channel.name, "timestamp": stamp.version, "expires": stamp.expires},
    }
    line = f"channel {channel.name} names it, metadata {stamp.version}, good until {stamp.expires}"
    return Report((), 0, document, (*report.lines, line))


def report_of(bundle: str, verdict: Verdict, facts: HostFacts, unread: str = "") -> Report:
    """Return a verdict as text.

    `bundle` is its path or its reference by digest; `unread` names what was not hashed.
    """
    manifest = verdict.manifest
    document = {
        "bundle": bundle,
        "name": manifest.name if manifest else None,
        "version": manifest.version if manifest else None,
        "root_digest": verdict.root_digest or None,
        "signers": list(verdict.signers),
        "target": verdict.target or None,
        "engine": engine_name(manifest.target) if manifest else None,
        "engines": [engine_of(each) for each in manifest.platforms] if manifest else [],
        "target_reason": choice_report(verdict.choice) if verdict.choice else None,
        "gates": list(verdict.gates),
        "weights_hashed": "digests" in verdict.gates,
        "host": {"cpu": facts.cpu, "jaxlib": facts.jaxlib, "memory_bytes": facts.memory_bytes},
        "certified": certified_report(certified_of(verdict.choice)) if verdict.choice else None,
        "built_with": {"jaxlib": manifest.built_with.jaxlib} if manifest else None,
    }
    if verdict.findings or manifest is None or verdict.choice is None:
        exit_code = errors.family_of(verdict.findings[0].code).exit_code
        return Report(verdict.findings, exit_code, document, ())
    lines = (
        f"ok      {manifest.name} {manifest.version} may be loaded here"
        f"{', if its weights are the signed ones' if unread else ''}",
        f"root    {verdict.root_digest}",
        f"signed  {', '.join(signer[:16] for signer in verdict.signers)}",
        f"target  {verdict.target} on {facts.cpu}, {_engine(manifest, facts)}",
        *([f"        {unread}"] if unread else ()),
        *_certificate_lines(verdict.choice),
        *_other_targets(verdict.choice),
    )
    return Report((), 0, document, lines)


def _engine(manifest: BundleManifest, facts: HostFacts) -> str:
    """Return the packages that run the executables here, and their versions."""
    requires = manifest.requires
    needs = {requires.platform: requires.device, **(requires.engines or {})}
    found = {each.platform: each.plugin for each in facts.accelerators}
    return ", ".join(
        f"jaxlib {facts.jaxlib}"
        if engine_of(platform) == XLA or device is UNSET
        else f"{device.plugin} {found.get(platform, NOT_INSTALLED)}"
        for platform, device in needs.items()
    )


def _certificate_lines(choice: Choice) -> Iterator[str]:
    """Yield lines on who certified a release other than the builder's, and what differed."""
    if (found := certified_of(choice)) is not None:
        worst = max((difference.ulp_max for difference in found.differences), default=0)
        by = ", ".join(name or id[:16] for id, name in zip(found.keys, found.names, strict=True))
        yield f"        certified by {by} on {found.certified_on}, built with {found.built_with}"
        fixtures = f"{len(found.differences)} fixtures within tolerance"
        yield f"        {fixtures}, up to {ulps(worst)} ulp apart"


def _other_targets(choice: Choice) -> Iterator[str]:
    """Yield a line for each other target with the reason why it was not chosen."""
    for candidate in choice.candidates:
        if candidate.target == choice.target:
            chosen = candidate.features
        elif candidate.findings:
            reasons = "; ".join(f"{f.code} expected {f.expected}" for f in candidate.findings)
            yield f"        not {candidate.target}: {reasons}"
        else:
            fewer = f"{candidate.features} of the processor's features, not {chosen}"
            yield f"        before {candidate.target}, which uses {fewer}"
    for name in choice.absent:
        yield f"absent  {name}: signed with the others, left out of this copy"


def host_report() -> Report:
    """Return this host's facts, JSON in either form; starts jaxlib, and raises as `detect`."""
    document = host_document(detect_all())
    return Report((), 0, document, tuple(document_text(document).splitlines()))
