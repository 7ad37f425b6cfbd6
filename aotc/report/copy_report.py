"""A bundle that a command wrote from others, as data and as text."""

from __future__ import annotations

from typing import Any

from aotc.base.stages import Bundle
from aotc.report.report_text import size


def copy_report(bundle: Bundle) -> dict[str, Any]:
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


def copy_lines(report: dict[str, Any], *more: str) -> list[str]:
    """A copy's report as lines for people: its identity, more lines, then its targets."""
    return [
        f"{report['name']} {report['version']}  {report['bundle']}  {size(report['size_bytes'])}",
        f"root    {report['root_digest']}",
        *more,
        *(f"target  {name}" for name in report["targets"]),
    ]
