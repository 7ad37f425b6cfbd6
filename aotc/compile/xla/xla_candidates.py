"""Compilation variants of XLA on processors: the default, and those that beat it for some program.

docs/concepts/performance.md describes their use. They only change speed; options that relax
arithmetic beyond the default (fast math) are left out.
"""

from __future__ import annotations

from aotc.compile.compiler_protocol import DEFAULT, Candidate

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

CANDIDATES = (
    Candidate(DEFAULT),
    *_BOUND,
    Candidate("captured", captures=True),
    *(
        Candidate(f"captured-{candidate.name}", candidate.options, captures=True)
        for candidate in _BOUND
        if candidate.name not in ("eigen", "lean", "o2", "wide")
    ),
)
"""In order of preference: the default, options alone by name, then those that also capture the
weights, which makes executables larger.
"""
