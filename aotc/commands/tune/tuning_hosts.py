"""Whether this host can measure code for a target."""

from __future__ import annotations

from aotc.base.errors import finding
from aotc.compile.compiler_registry import kind_of
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target


def unsuited(target: Target, host: Target) -> str:
    """Why the host cannot measure code for the target; empty if it can. host: as a target."""
    processor = isinstance(kind_of(target.platform), ProcessorKind)
    if not processor or _architecture(target) != _architecture(host):
        return f"it is {host.platform} {_architecture(host)}"
    if target.devices > 1:
        return "programs over several devices are not tuned"
    missing = sorted(set(target.features) - set(host.features))
    return f"its processor lacks {', '.join(missing)}" if missing else ""


def cannot_run(target: str, reason: str) -> Finding:
    """AOTC-E911. reason: as `unsuited` gives it."""
    return finding(
        "AOTC-E911",
        f"--tune for {target}",
        f"not tuned: this host cannot run target {target}: {reason}",
    )


def _architecture(target: Target) -> str:
    return target.triple.partition("-")[0]
