"""The results of `aotc extract` and `aotc merge`, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotc.bundles.merge import MergedBundle
from aotc.report.text import size
from aotc.stages import Bundle


def extract_report(bundle: Bundle) -> dict[str, Any]:
    """What was written: its path, identity, size (bytes) and targets."""
    first = next(iter(bundle.manifests.values()))
    return {
        "bundle": str(bundle.path),
        "name": first.name,
        "version": first.version,
        "root_digest": bundle.root_digest,
        "size_bytes": bundle.size_bytes,
        "targets": sorted(bundle.manifests),
    }


def merge_report(merged: MergedBundle) -> dict[str, Any]:
    """The same, who signed it, what it was made of, and what its user should know."""
    return {
        **extract_report(merged.bundle),
        "signed_by": merged.attestation.key_id if merged.attestation else None,
        "inputs": [
            {
                "name": found.name,
                "root_digest": found.root_digest,
                "targets": list(found.targets),
                "signers": list(found.signers),
            }
            for found in merged.inputs
        ],
        "notes": list(_notes(merged.bundle)),
    }


def _notes(bundle: Bundle) -> Iterator[str]:
    accepted = {name: m.accepts_jaxlib for name, m in sorted(bundle.manifests.items())}
    if len(set(accepted.values())) > 1:
        listed = ", ".join(f"{name} {' or '.join(found)}" for name, found in accepted.items())
        yield f"no jaxlib runs all targets alike: {listed}"


def copy_lines(report: dict[str, Any]) -> list[str]:
    """Either for people."""
    lines = [
        f"{report['name']} {report['version']}  {report['bundle']}  {size(report['size_bytes'])}",
        f"root    {report['root_digest']}",
    ]
    if "signed_by" in report:
        lines.append(f"signed  {(report['signed_by'] or 'nobody')[:16]}")
    lines += [f"target  {name}" for name in report["targets"]]
    for found in report.get("inputs", ()):
        signers = ", ".join(signer[:16] for signer in found["signers"])
        by = f"signed by {signers}" if signers else "whoever signed it"
        lines.append(f"from    {found['root_digest']}, {by}")
    return lines
