"""What `aotc build --tune` tries with each engine: the default, and what beat it for some program.

docs/performance.md says what each was found to be good for. Options that only change speed are
here; those that relax arithmetic beyond what the default does (fast math) are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aotc.base.errors import finding
from aotc.compile.compiler_registry import kind_of
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc.engines.iree.iree_job import DRIVER
from aotc.engines.onnx_graphs.graph_compiler import threads_option
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, SPINNING
from aotc.pipeline.captured_weights import Candidate
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.iree.iree_names import DRIVERS, IREE
from aotc_runtime.engines.onnxruntime.onnxruntime_names import ENGINE as ONNXRUNTIME
from aotc_runtime.engines.openvino.openvino_names import ENGINE as OPENVINO
from aotc_runtime.schema.bundle_manifest import XLA, Target, engine_name

DEFAULT = "default"

PACKING = (ONNXRUNTIME, OPENVINO)

CAPTURED_BYTES_MAX = 2**20
"""Weights of at most this size may become constants of an executable, which is one of several and
holds a copy of its own."""

PACKED_BYTES_MAX = 2**29
"""Engines that take graphs pack weights at load, for every candidate of its own: of larger ones the
default alone is measured, so that a build does not need several times their memory."""

_YNN = "xla_cpu_experimental_ynn_fusion_type"
_PREFIX = "LIBRARY_FUSION_TYPE_"


def _ynn(*kinds: str) -> dict[str, str]:
    """Let YNNPACK have these kinds of operations and leave the others to Eigen and XLA's loops."""
    return {_YNN: ",".join(_PREFIX + kind for kind in kinds)}


_WIDE = {"xla_cpu_prefer_vector_width": "512"}
_O2 = {"xla_backend_optimization_level": "2"}
_LEAN = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
"""Weights of 16 bits are widened one after the other, each where it is used; the default widens all
of them first and so takes twice their size besides."""

_EIGEN = _ynn()
_DOTS = _ynn("INDIVIDUAL_DOT")
_LOOPS = _ynn("ELTWISE", "REDUCE")
_ALL = _ynn("DOT", "ELTWISE", "REDUCE", "INDIVIDUAL_CONVOLUTION")


_BOUND = (
    Candidate("eigen", _EIGEN),
    Candidate("eigen-wide", {**_EIGEN, **_WIDE, **_O2}),
    Candidate("lean", _LEAN, narrow=True),
    Candidate("o2", _O2),
    Candidate("wide", _WIDE),
    Candidate("ynn-all", _ALL),
    Candidate("ynn-dots", {**_DOTS, **_O2}),
    Candidate("ynn-loops", {**_LOOPS, **_WIDE}),
)

_OF_XLA = (
    Candidate(DEFAULT),
    *_BOUND,
    Candidate("captured", captures=True),
    *(
        Candidate(f"captured-{candidate.name}", candidate.options, captures=True)
        for candidate in _BOUND
        if candidate.name not in ("eigen", "lean", "o2", "wide")
    ),
)


def _of_graphs(engine: str, *threads: str) -> tuple[Candidate, ...]:
    option = threads_option(engine)
    return (Candidate(DEFAULT), *(Candidate(word, {option: word}) for word in threads))


CANDIDATES: Mapping[str, tuple[Candidate, ...]] = {
    XLA: _OF_XLA,
    IREE: (Candidate(DEFAULT), *(Candidate(driver, {DRIVER: driver}) for driver in DRIVERS)),
    ONNXRUNTIME: _of_graphs(ONNXRUNTIME, CALLING, POOL, SPINNING),
    OPENVINO: _of_graphs(OPENVINO, CALLING, POOL),
}
"""By engine, in the order of preference: the default, options alone by name, then those that also
capture the weights, which makes executables larger. Of other engines there is the default alone."""


def candidates_for(
    target: Target, *, weight_bytes: int, narrow: bool = False
) -> Iterator[Candidate]:
    """The candidates for an executable, in the order of preference.

    target: whose options nothing overrides.  weight_bytes: size of the weights it could capture; 0
    if there are none.  narrow: whether it has weights of 16 bits.
    """
    engine = engine_name(target)
    for candidate in CANDIDATES.get(engine, (Candidate(DEFAULT),)):
        if candidate.captures and not 0 < weight_bytes <= CAPTURED_BYTES_MAX:
            continue
        if candidate.narrow and not narrow:
            continue
        if engine in PACKING and candidate.options and weight_bytes > PACKED_BYTES_MAX:
            continue
        if not candidate.options.keys() & target.options.keys():
            yield candidate


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
