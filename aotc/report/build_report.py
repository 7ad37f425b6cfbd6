"""A finished build as data."""

from __future__ import annotations

from typing import Any

from aotc.pipeline.build import Built
from aotc.report.inspect_report import manifest_report
from aotc.report.tasks_report import task_report


def build_report(built: Built) -> dict[str, Any]:
    """Everything about a build: where it lies, its digest, times (seconds) and its targets."""
    manifests = built.bundle.manifests
    first = next(iter(manifests.values()))
    return {
        "bundle": str(built.bundle.path),
        "name": first.name,
        "version": first.version,
        "root_digest": built.bundle.root_digest,
        "size_bytes": built.bundle.size_bytes,
        "signed_by": built.attestation.key_id if built.attestation else None,
        "seconds": built.seconds,
        "compile_seconds": built.compile_seconds,
        "notes": list(built.notes),
        "diagnostics": {key: list(lines) for key, lines in built.diagnostics.items()},
        "compared_with": built.compared,
        "tasks": [task_report(done) for done in built.tasks],
        "targets": {name: manifest_report(m) for name, m in manifests.items()},
    }
