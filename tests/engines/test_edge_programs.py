"""Programs of `edge_programs` on each engine beside XLA: those whose results are XLA's, to the last
bits or but for zeros and denormal numbers, some of which would be others without a repair of
aotc's, and those that are refused by name. In children of `search`, since a crash is a finding.

The whole table on an engine: `python -m scripts.search run out/edges.jsonl --engine iree`
(half an hour), for OpenVINO with X64=0 (an hour). engines.md tells users what differs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from scripts.search.children import Child
from scripts.search.edge_programs import PROGRAMS

from .conftest import Other


class Edges(NamedTuple):
    """Names of programs. near: whose results are the same but for rounding.  small: or for the
    signs of zeros, denormal numbers and those that are small beside others.  refused: what they
    are refused for.
    """

    near: str
    small: str
    refused: Mapping[str, str]


ORDINARY = """
    random.threefry2x32.bits random.threefry2x32.uniform random.threefry2x32.permutation
    random.threefry2x32.categorical binary.add.int32 binary.sub.int32 binary.mul.int32
    binary.div.int32 binary.rem.int32 binary.shift_left.int32 binary.shift_right_logical.int32
    binary.shift_right_arithmetic.int32 unary.power_5.int32 unary.abs.int32 unary.sign.int32
    unary.not.int32 convert.int32.int8 convert.int32.uint8
    convert.int32.float32 convert.int32.bool binary.add.uint32 binary.compare.uint32
    binary.max.uint32 convert.uint32.float32 unary.shifted.uint32 binary.div.uint32
    binary.add.int8 binary.mul.int8 binary.max.int8 convert.int8.int32 binary.add.int64
    binary.mul.int64 binary.compare.int64 convert.float32.int32 convert.float32.uint8
    sort.plain.float32 sort.argsort.float32 sort.values_follow.int32 reduce.max.1.float32
    reduce.min.1.float32 reduce.argmax.1.float32 reduce.argmin.1.float32 sort.top_k.float32
    binary.max.float32 binary.min.float32 unary.clamp.float32 unary.relu.float32
    unary.sign.float32 unary.abs.float32 unary.not_a_number.float32 binary.copysign.float32
    unary.round_even.float32 unary.floor.float32 unary.ceil.float32 unary.trunc.float32
    binary.compare.float32 binary.div.float32 binary.rem.float32 binary.pow.float32
    unary.exp.float32 unary.expm1.float32 unary.logistic.float32 unary.log.float32
    unary.log1p.float32 unary.sqrt.float32 unary.rsqrt.float32 unary.cbrt.float32
    unary.sin.float32 unary.tan.float32 large.cos.float32 unary.tanh.float32 unary.erf.float32
    binary.atan2.float32 unary.is_finite.float32 unary.nan_to_num.float32 reduce.sum.1.float32
    reduce.prod.1.float32 running.cumsum.float32 running.cumprod.float32 running.cummax.float32
    binary.add.float16 binary.mul.float16 convert.float16.float32 convert.float32.bfloat16
    binary.add.bfloat16 binary.mul.bfloat16 binary.mul.float64 convert.float64.float32
    gather.at.outside.fill gather.at.outside.clip scatter.add.outside.drop.float32
    scatter.max.outside.drop.float32 slice.negative slice.empty_of control.while
    control.switch.-1 control.switch.2 control.cond control.fori control.scan_reverse
    binary.and.bool binary.or.bool binary.xor.bool binary.compare.bool reduce.any.None.bool
    reduce.all.None.bool reduce.sum.bool shape.chosen.float32 empty.sum.float32
    empty.joined.float32 empty.reversed.float32 shape.scalar.float32 dot.overflow.int8
    dot.int8_to_int32 conv.nhwc.float32 window.max.same.float32 window.nan.float32
    shape.moved.float32 pad.float32
"""
"""Every kind of operation, at its edges."""

NOT_BY_IREE = {
    "binary.atan2.float32": "stablehlo.atan2",
    "control.cond": "stablehlo.sort",
    "random.threefry2x32.permutation": "stablehlo.sort",
    "sort.argsort.float32": "stablehlo.sort",
    "sort.plain.float32": "stablehlo.sort",
    "sort.top_k.float32": "stablehlo.sort",
    "sort.values_follow.int32": "stablehlo.sort",
    "unary.cbrt.float32": "stablehlo.cbrt",
    "unary.tan.float32": "stablehlo.tan",
}

IREE = Edges(
    """
    binary.pow.float16 binary.pow.float32 binary.pow.float64 conv.depthwise.float16
    conv.plain.bfloat16 conv.plain.float16
    convert.bool.bfloat16 convert.float64.float16 convert.int32.bfloat16 convert.float32.int8
    dot.converted.bool.bfloat16 dot.converted.bool.float32 dot.converted.bool.int32
    dot.converted.uint16.float64 dot.converted.uint32.int64 dot.converted.uint8.float32
    dot.converted.uint8.int32 dot.matrix.float16 dot.mixed dot.none_contracted.bool
    dot.uint8_to_int32 filled.chosen.nansum filled.chosen.sum filled.exp.convolution
    filled.exp.nansum filled.exp.product filled.exp.sum filled.exp.window filled.filled.nansum
    gather.at.outside.fill gather.index.uint8.clip many.axes.float32 many.mean.float32
    many.product.float32 many.sum.float32
    mask.compared.float32 mask.einsum.float32 mask.row.float16 mask.sum.float32
    unary.popcnt.int32 unary.clz.int32
    mask.times.bfloat16 mask.times.float32 large.cos.float32
    large.sin.float32 near.sin.float32 scatter.add.outside.None.float32
    scatter.add_dtype.bfloat16 scatter.batched.drop scatter.both.float32 scatter.dtype.bool
    scatter.dtype.int8 scatter.index.int64.fill scatter.index.uint32.fill
    scatter.index.uint8.clip scatter.max.outside.drop.int32 scatter.min.outside.drop.float32
    scatter.set.outside.drop.float32 scatter.set.outside.None.int32 scatter.values.float32
    scatter.window.scatter.drop scores.bfloat16 slice.index.int8 slice.index.uint64
    slice.update_index.int8
    small.sin.float32
    """,
    " ".join(name for name in ORDINARY.split() if name not in NOT_BY_IREE),
    {
        **NOT_BY_IREE,
        "binary.atan2.float16": "stablehlo.atan2",
        "large.tan.float32": "stablehlo.tan",
        "many.running.float32": "stablehlo.reduce_window of sums of 9000 numbers",
        "many.running_back.float32": "stablehlo.reduce_window of sums of 9000 numbers",
        "part.depthwise.float32": "stablehlo.convolution of single numbers at a stride",
        "part.depthwise_padded.float32": "stablehlo.convolution of single numbers at a stride",
        "part.window_min.float32": "stablehlo.reduce_window of single numbers at a stride",
        "part.window_padded.float32": "stablehlo.reduce_window of single numbers at a stride",
        "part.window_sum.float32": "stablehlo.reduce_window of single numbers at a stride",
        "unary.exp.complex64": "complex<f32>",
        "unary.log.complex64": "complex<f32>",
        "unary.log1p.complex64": "complex<f32>",
        "binary.div.complex64": "complex<f32>",
        "binary.mul.complex128": "complex<f64>",
        "convert.float32.float8_e4m3fn": "f8E4M3FN",
        "linalg.cholesky.float32": "lapack_spotrf_ffi",
        "scatter.dtype.complex64": "complex<f32>",
        "small.expm1.float64": "stablehlo.exponential_minus_one of float64",
        "small.log1p.float64": "stablehlo.log_plus_one of float64",
        "unary.tanh.complex64": "complex<f32>",
        "window.min_grad.float32": "stablehlo.select_and_scatter",
    },
)

ONNX_RUNTIME = Edges(
    "",
    f"""
    {ORDINARY}
    conv.plain.float32 conv.strided.float32 conv.dilated.float32 conv.transposed.float32
    conv.negative.float32 conv.grouped.float32 conv.grad.float32 conv.all.float32
    window.max.valid.float32 window.add.same.float32 window.mul.same.float32 gather.dtype.float32
    gather.whole gather.batched.clip gather.along.inside.clip segment.segment_sum.float32
    control.scan_carry_array running.cumprod.float32.reverse running.cummin.float32
    reduce.two_operands.float32 statistics.median.float32 sort.lexsort.float32 sort.nonzero.int32
    shape.split shape.insert unary.erf_inv.float32 unary.erfc.float32
    unary.softplus.float32 unary.elu.float32 unary.shifted.int8 unary.parity.int8
    reduce.sum.1.int32 reduce.prod.1.int32 reduce.sum.1.int64 reduce.prod.1.int64
    binary.shift_right_arithmetic.uint32 reduce.argmax.1.float64 reduce.argmin.1.float64
    running.cumprod.bfloat16 unary.self_quotient.int32 unary.self_quotient.uint8
    binary.max.uint64 binary.compare.uint64 unary.divided.uint64 reduce.sum.1.uint64
    sort.argsort.uint64 sort.top_k.uint64 unary.gelu_exact.float32 unary.gelu.float32
    unary.silu.float32 rows.softmax rows.softmax_first rows.log_softmax rows.logsumexp
    dot.einsum.float32 dot.two_contracted.float32 dot.batch.float32 mask.times.float32
    mask.times.float16 mask.times.bfloat16 mask.sum.float32 mask.compared.float32
    mask.einsum.float32 mask.einsum.float16 mask.row.float32 mask.constant.float32
    scatter.window.scatter_add.drop slice.update_index.int32 rows.softmax_masked rows.argmax
    rows.min window.nan.float32 gather.at.outside.fill unary.popcnt.int32 unary.clz.int32
    unary.lgamma.float32
    """,
    {
        "window.max_grad.float32": "stablehlo.select_and_scatter",
        "binary.mul.complex64": "complex<f32>",
        "binary.mul.complex128": "complex<f64>",
        "convert.float32.float8_e4m3fn": "f8E4M3FN",
        "fft.rfft.8": "complex<f32>",
        "linalg.cholesky.float32": "lapack_spotrf_ffi",
    },
)

OPENVINO = Edges(
    """
    behind.map.strided_backwards behind.reverse.looped behind.scan.flipped behind.scan.strided
    behind.slice.flipped behind.update.flipped beside.binary.and.int32
    beside.binary.compare.float32 beside.conv.plain.float32 beside.gather.along.outside.clip
    beside.scatter.set.outside.drop.float32 beside.unary.is_finite.float32 binary.add.int32
    binary.and.int32 binary.compare.bool binary.compare.float32 binary.compare.int32
    binary.mul.int32 binary.sub.float32 binary.sub.int32 convert.bool.float32
    convert.float32.int8 convert.int32.float32 convert.uint8.float32 dot.batch.float32
    dot.matrix.float32 gather.along.outside.clip gather.at.outside.fill gather.index.int32.fill
    reduce.argmax.1.float32 reduce.sum.1.float32 scatter.add.repeated.drop.float32
    scatter.set.outside.drop.float32 shape.chosen.uint8 shape.moved.int32 slice.index.int32
    slice.update_index.int32 unary.neg.int32 unary.sqrt.float32 window.max.same.float32
    binary.max.int32 convert.float32.int32 fine.clamped fine.padded fine.scattered fine.chosen
    fine.chosen_in_loops fine.chosen_in_branches fine.reduced fine.places fine.sums fine.extremes
    fine.windows fine.one_to_reduce fine.none_to_reduce fine.no_results fine.scattered_far
    """,
    """
    chain.image conv.infinite_kernel chain.less_negative_times chain.less_over
    chain.less_repeated_times chain.looped chain.over_over chain.plus_less chain.times_times
    power.of_constant.-0.50 power.of_constant.0.50 power.of_each.0.50 rows.argmax
    rows.argmin.negative rows.log_softmax rows.logsumexp rows.max.negative rows.max_window
    rows.min rows.softmax rows.softmax_first rows.softmax_masked binary.fmax.float32
    binary.heaviside.float32 binary.max.float32 binary.min.float32 binary.where.float32
    constant.binary.logaddexp.float32 constant.unary.clamp_none.float32
    constant.unary.log_ndtr.float32 constant.unary.twice_negated.float32 running.cummax.float32
    running.cummin.float32.reverse unary.clamp.float32 unary.exp.float32 unary.exp2.float32
    unary.gelu_exact.float32 unary.grad_abs.float32 unary.logistic.float32 unary.relu.float32
    window.nan.float32
    """,
    {
        "binary.add.float16": "a parameter of f16",
        "binary.add.int8": "stablehlo.add of i8",
        "binary.div.int32": "stablehlo.divide of i32",
        "binary.rem.float32": "stablehlo.remainder",
        "dot.inner.float32": "stablehlo.dot_general of two vectors",
        "dot.matrix.bfloat16": "a parameter of bf16",
        "dot.overflow.int32": "stablehlo.dot_general of i32",
        "scatter.max_of_none.float32": "stablehlo.scatter of f32 with a maximum or minimum",
        "sort.plain.float32": "stablehlo.sort",
        "unary.tan.float32": "stablehlo.tan",
        "window.max.dilated.float32": "stablehlo.reduce_window with dilations",
    },
)

EDGES = {"iree": IREE, "onnxruntime": ONNX_RUNTIME, "openvino": OPENVINO}


@pytest.fixture(scope="module")
def child(other: Other, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    one = Child(tmp_path_factory.mktemp("edges") / "said")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("X64", "0" if other.name == "openvino" else "1")
        yield one
    one.end()


def test_results_are_those_of_xla(other: Other, child: Child) -> None:
    near, small, _ = EDGES[other.name]
    found = [child.run(name, other.name) for name in (*near.split(), *small.split())]
    assert not [each for each in found if each.found not in ("same", "near", "small")]
    assert not [each for each in found if each.found == "small" and each.name in near.split()]


def test_what_differs_is_refused_by_its_operation(other: Other, child: Child) -> None:
    refused = EDGES[other.name].refused
    found = {name: child.run(name, other.name) for name in refused}
    assert {name: each.found for name, each in found.items()} == dict.fromkeys(refused, "refused")
    assert all(refused[name] in each.told for name, each in found.items()), found


def test_programs_have_names_that_are_in_the_table() -> None:
    for near, small, refused in EDGES.values():
        assert {*near.split(), *small.split(), *refused} <= {*PROGRAMS}
