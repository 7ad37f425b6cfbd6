"""Out-of-profile policies that a program does not allow: because it decides by a dimension's size,
or because it is not known which axes carry the dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotc.base.errors import finding
from aotc.capture.symbolic_trace import Symbolic
from aotc.config.build_manifest import (
    BuildManifest,
    at_once,
)
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import CompileHere, DimensionPolicy, Pad, Split, TensorSpec
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.schema.tensor_text import tensor_text


def findings(
    manifest: BuildManifest,
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    symbolic: Symbolic,
) -> Iterator[Finding]:
    """AOTC-E838 a dimension that the program is specialised to, E839 inputs or outputs that a
    policy cannot work with.
    """
    for dimension, policy in manifest.entry_points[name].out_of_profile.items():
        where = manifest.where("entry_points", name, "out_of_profile", dimension)
        if reason := symbolic.specialized.get(dimension):
            yield finding(
                "AOTC-E838",
                where,
                str(reason),
                expected=f"a program that does the same at every size of {dimension}",
            )
        else:
            yield from _without_axes(where, dimension, policy, inputs, outputs)
            yield from _without_module(where, dimension, policy, symbolic)


def _without_axes(
    where: str,
    dimension: str,
    policy: DimensionPolicy,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> Iterator[Finding]:
    tensors = [*(("input", spec) for spec in inputs), *(("output", spec) for spec in outputs)]
    unknown = [(kind, spec) for kind, spec in tensors if "?" in spec.shape]
    for kind, spec in unknown[:1]:
        yield _unsuited(
            where,
            f"an {kind} whose size is known from the dimensions: sums and products of them",
            f"{kind} {spec.path or 'result'}, {tensor_text(spec)}",
        )
    plan = at_once(policy)
    if isinstance(plan, Split) and not unknown:
        for kind, spec in tensors:
            carrying = [a for a in spec.shape if dimension in parse_expression(a).names()]
            if carrying not in ([], [dimension]):
                expected = f"an {kind} that carries {dimension} by itself, on one axis at most"
                found = f"{kind} {spec.path or 'result'}, {tensor_text(spec)}"
                yield _unsuited(where, expected, found)
    if isinstance(plan, Pad):
        paths = {spec.path for spec in inputs}
        for path in sorted(plan.fill.keys() - paths):
            yield _unsuited(where, f"a fill for one of {', '.join(sorted(paths))}", path)


def _without_module(
    where: str, dimension: str, policy: DimensionPolicy, symbolic: Symbolic
) -> Iterator[Finding]:
    reasons = [(d, str(r)) for d, r in (symbolic.specialized | symbolic.undetermined).items()]
    if isinstance(policy, CompileHere) and reasons:
        other, reason = reasons[0]
        expected = "a function that jax can trace at all sizes at once, to compile it for any"
        found = reason if other == dimension else f"{reason} (of {other})"
        yield _unsuited(where, expected, found)


def _unsuited(where: str, expected: str, found: str) -> Finding:
    return finding("AOTC-E839", where, found, expected=expected)
