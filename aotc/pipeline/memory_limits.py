"""Limits that a manifest sets on memory: by the analysis, and by what calls are seen to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aotc.base.call_memory import over_limit
from aotc.base.child_processes import Processes
from aotc.bundle.write.bundle_writer import TargetParts
from aotc.check import memory_process
from aotc.config.build_manifest import BuildManifest
from aotc.pipeline.provisional_bundle import pack_provisional
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target


def exceeded(
    manifest: BuildManifest,
    targets: Mapping[str, Target],
    parts: Sequence[TargetParts],
    folder: Path,
    processes: Processes,
) -> Iterator[Finding]:
    """AOTC-E973 for every profile beyond the `memory_limit` of its target, where that is set.

    Calls are measured only where XLA's analysis finds no profile too large.
    targets: by name as the manifest writes it.  folder: scratch, for the bundle that is measured.
    """
    names = {target.name: name for name, target in targets.items()}
    for part in parts:
        target = part.manifest.target
        override = manifest.overrides.get(names[target.name])
        if override is None or override.memory_limit is None:
            continue
        where = manifest.where("target", names[target.name], "memory_limit")
        findings = [*over_limit(part.manifest, override.memory_limit, where, {})]
        if not findings:
            provisional = pack_provisional([part], folder)
            taken = memory_process.run(
                *(provisional.bundle, provisional.policy, target.name, target.threads),
                *(folder, processes),
            )
            provisional.remove()
            findings = [*over_limit(part.manifest, override.memory_limit, where, taken)]
        yield from findings
