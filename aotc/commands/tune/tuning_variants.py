"""Selects the variants that `aotc build --tune` tries, and the targets this host can measure."""

from collections.abc import Iterator

from aotc.base.errors import finding
from aotc.compile.compiler_protocol import Candidate
from aotc.compile.compiler_registry import kind_of
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Target

CAPTURED_BYTES_MAX = 2**20
"""Weights of at most this size may become constants of an executable, which is one of several and
holds a copy of its own."""

PACKED_BYTES_MAX = 2**29
"""Engines that take graphs pack weights at load, for every candidate of its own: of larger ones the
default alone is measured, so that a build does not need several times their memory."""


def candidates_for(
    target: Target, *, weight_bytes: int, narrow: bool = False
) -> Iterator[Candidate]:
    """Yield the variants for an executable by preference; none overrides options of `target`.

    `weight_bytes` is the size of weights it could capture; `narrow` is whether some have 16 bits.
    """
    kind = kind_of(target.platform)
    for candidate in kind.candidates():
        if candidate.captures and not 0 < weight_bytes <= CAPTURED_BYTES_MAX:
            continue
        if candidate.narrow and not narrow:
            continue
        if kind.packs_weights and candidate.options and weight_bytes > PACKED_BYTES_MAX:
            continue
        if not candidate.options.keys() & target.options.keys():
            yield candidate


def why_unsuited(target: Target, host: Target) -> str:
    """Return why the host, given as a target, cannot measure code for the target; "" if it can."""
    processor = isinstance(kind_of(target.platform), ProcessorKind)
    if not processor or _architecture(target) != _architecture(host):
        return f"it is {host.platform} {_architecture(host)}"
    if target.devices > 1:
        return "programs over several devices are not tuned"
    missing = sorted(set(target.features) - set(host.features))
    return f"its processor lacks {', '.join(missing)}" if missing else ""


def cannot_run(target: str, reason: str) -> Finding:
    """Return AOTC-E911. reason: as `unsuited` gives it."""
    return finding("AOTC-E911", f"--tune for {target}", reason)


def _architecture(target: Target) -> str:
    return target.triple.partition("-")[0]
