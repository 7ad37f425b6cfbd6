"""What `aotc merge` reports, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotc.base.stages import Bundle
from aotc.commands.merge.merged_bundle import MergedBundle
from aotc.report.copy_report import copy_report, identity_lines, target_lines


def merge_report(merged: MergedBundle) -> dict[str, Any]:
    """What was written, who signed it, what it was made of, and what its user should know."""
    return {
        **copy_report(merged.bundle),
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


def merge_lines(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    lines = [
        *identity_lines(report),
        f"signed  {(report['signed_by'] or 'nobody')[:16]}",
        *target_lines(report),
    ]
    for found in report["inputs"]:
        signers = ", ".join(signer[:16] for signer in found["signers"])
        by = f"signed by {signers}" if signers else "whoever signed it"
        lines.append(f"from    {found['root_digest']}, {by}")
    return lines
