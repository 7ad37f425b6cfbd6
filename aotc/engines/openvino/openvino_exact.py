"""Operations that OpenVINO computes as plain JAX does, by comparison at the edges of each.

Its processor plugin computes with numbers of 64 and of 16 bits as with others, and in float32 with
many integers, so that all else is refused. `scripts/search/edge_programs.py` holds what was run.
"""

from collections.abc import Callable, Mapping
from math import prod

from aotc.engines.onnx_graphs import graph_patterns, graph_quantized
from aotc.engines.onnx_graphs.graph_builder import Graph
from aotc.engines.onnx_graphs.stablehlo_program import (
    NARROW,
    Block,
    Operation,
    UnsupportedError,
    require_none,
)

ELEMENTS = ("i1", "i8", "ui8", "i32", "f32")

_EXACT: Mapping[str, str] = {
    "i1 i8 ui8 i32 f32": (
        "broadcast_in_dim case compare concatenate constant dynamic_slice "
        "dynamic_update_slice gather iota pad reshape reverse select slice transpose while"
    ),
    "i32 f32": "abs add clamp multiply negate reduce_window scatter sign subtract",
    "i1 i32": "and not or xor",
    "i1 i32 f32": "maximum minimum reduce",
    "i1 f32": "is_finite",
    "f32": (
        "ceil convolution cosine divide dot_general exponential floor log log_plus_one "
        "logistic power round_nearest_even rsqrt sine sqrt tanh"
    ),
}
"""Operations of StableHLO by the types of their operands and results."""

EXACT: Mapping[str, frozenset[str]] = {
    **{
        f"stablehlo.{name}": frozenset(elements.split())
        for elements, names in _EXACT.items()
        for name in names.split()
    },
    "stablehlo.convert": frozenset({*ELEMENTS, *NARROW}),
    **{
        name: frozenset({"f32"})
        for name in (
            "chlo.erf",
            "chlo.erfc",
            graph_patterns.GELU,
            graph_patterns.LAYER_NORM,
            graph_patterns.LOG_SOFTMAX,
            graph_patterns.RELU,
            graph_patterns.RMS_NORM,
            graph_patterns.SOFTMAX,
            graph_patterns.SWISH,
            graph_patterns.TANH_GELU,
        )
    },
    **dict.fromkeys(
        (
            graph_quantized.DEQUANTIZE,
            graph_quantized.QUANTIZE,
            graph_quantized.UNPACK,
            graph_quantized.WEIGHTED,
            *graph_quantized.WHOLE.values(),
        ),
        frozenset({"i4", "ui4", "i8", "ui8", "i32", "f32"}),
    ),
    graph_patterns.ARG_MAX: frozenset({"f32", "i32"}),
    graph_patterns.ARG_MIN: frozenset({"f32", "i32"}),
}

ABSENT = ("BitCast",)
"""Operators of our graphs that OpenVINO does not read."""

PLACES_MAX = 2**24
"""Along an axis: indices are clamped in float32, which holds no odd number above."""

_INDEXED = ("gather", "scatter", "dynamic_slice", "dynamic_update_slice")


def require_exact(program: Block, graph: Graph) -> None:
    """Raise UnsupportedError for a program that OpenVINO computes differently.

    The error names every operation; `graph` is the program's.
    """
    for value in program.arguments:
        if value.element not in (*ELEMENTS, *NARROW):
            raise UnsupportedError(f"a parameter of {value.element}")
    refused: dict[str, list[Operation]] = {}
    for operation in program.walk():
        if why := _refused(operation):
            refused.setdefault(why, []).append(operation)
    require_none(refused, program.flops)
    for node in graph.walk():
        if node.operator in ABSENT:
            raise UnsupportedError(f"{node.origin}, for which OpenVINO has no {node.operator}")


def _refused(operation: Operation) -> str:
    """Return what an operation is that OpenVINO computes differently; "" for others."""
    name = operation.name
    known = EXACT.get(name)
    if known is None and (name.startswith(("stablehlo.", "chlo.")) or not operation.blocks):
        return name
    for value in (*operation.results, *operation.operands):
        if value.element not in (known if known is not None else ELEMENTS):
            return f"{name} of {value.element}"
    odd = _ODD.get(name.removeprefix("stablehlo."))
    why = odd(operation) if odd is not None else ""
    return f"{name} {why}" if why else ""


def _windows(operation: Operation) -> str:
    dilations = [
        int(each)
        for name in ("base_dilations", "window_dilations")
        for each in operation.attributes.get(name, ())
    ]
    return "with dilations" if prod(dilations) != 1 else ""


def _index_limit(operation: Operation) -> str:
    largest = max(operation.operands[0].shape, default=0)
    return f"along {largest} places" if largest > PLACES_MAX else ""


def _scatter(operation: Operation) -> str:
    kinds = {each.name for block in operation.blocks for each in block.walk()}
    if operation.operands[0].element == "f32" and kinds & {
        f"stablehlo.{w}imum" for w in ("max", "min")
    }:
        return "of f32 with a maximum or minimum, which forgets what is no number"
    return _index_limit(operation)


_ODD: Mapping[str, Callable[[Operation], str]] = {
    "dot_general": lambda operation: "" if operation.result.shape else "of two vectors",
    "reduce_window": _windows,
    **dict.fromkeys(_INDEXED, _index_limit),
    "scatter": _scatter,
}
"""What of these operations is not exact: "" if it is."""
