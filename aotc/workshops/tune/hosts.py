"""Whether this host can measure code for a target."""

from __future__ import annotations

from aotc.backends.cpu.kind import ProcessorKind
from aotc.backends.registry import kind_of
from aotc.errors import finding
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import Target


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
