"""What OpenVINO's graphs compute where compilers differ: programs of `edge_programs` that are right
to the last bits, those that would be wrong without repairs, and those that are refused, in children
of `search`, since a crash is a finding there.

All of the table, an hour: `X64=0 python -m tests.engines.search run out/edges.jsonl --engine
openvino`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .edge_programs import PROGRAMS
from .search import TOGETHER, Child

EXACT = (
    "behind.map.strided_backwards",
    "behind.reverse.looped",
    "behind.scan.flipped",
    "behind.scan.strided",
    "behind.slice.flipped",
    "behind.update.flipped",
    "beside.binary.and.int32",
    "beside.binary.compare.float32",
    "beside.conv.plain.float32",
    "beside.gather.along.outside.clip",
    "beside.scatter.set.outside.drop.float32",
    "beside.unary.is_finite.float32",
    "binary.add.int32",
    "binary.and.int32",
    "binary.compare.bool",
    "binary.compare.float32",
    "binary.compare.int32",
    "binary.mul.int32",
    "binary.sub.float32",
    "binary.sub.int32",
    "convert.bool.float32",
    "convert.float32.int8",
    "convert.int32.float32",
    "convert.uint8.float32",
    "dot.batch.float32",
    "dot.matrix.float32",
    "gather.along.outside.clip",
    "gather.at.outside.fill",
    "gather.index.int32.fill",
    "reduce.argmax.1.float32",
    "reduce.sum.1.float32",
    "scatter.add.repeated.drop.float32",
    "scatter.set.outside.drop.float32",
    "shape.chosen.uint8",
    "shape.moved.int32",
    "slice.index.int32",
    "slice.update_index.int32",
    "unary.neg.int32",
    "unary.sqrt.float32",
    "window.max.same.float32",
)

REPAIRED = (
    "chain.image",
    "conv.infinite_kernel",
    "chain.less_negative_times",
    "chain.less_over",
    "chain.less_repeated_times",
    "chain.looped",
    "chain.over_over",
    "chain.plus_less",
    "chain.times_times",
    "power.of_constant.-0.50",
    "power.of_constant.0.50",
    "power.of_each.0.50",
    "rows.argmax",
    "rows.argmin.negative",
    "rows.log_softmax",
    "rows.logsumexp",
    "rows.max.negative",
    "rows.max_window",
    "rows.min",
    "rows.softmax",
    "rows.softmax_first",
    "rows.softmax_masked",
    "binary.fmax.float32",
    "binary.heaviside.float32",
    "binary.max.float32",
    "binary.min.float32",
    "binary.where.float32",
    "constant.binary.logaddexp.float32",
    "constant.unary.clamp_none.float32",
    "constant.unary.log_ndtr.float32",
    "constant.unary.twice_negated.float32",
    "running.cummax.float32",
    "running.cummin.float32.reverse",
    "unary.clamp.float32",
    "unary.exp.float32",
    "unary.exp2.float32",
    "unary.gelu_exact.float32",
    "unary.grad_abs.float32",
    "unary.logistic.float32",
    "unary.relu.float32",
    "window.nan.float32",
)
"""What is no number would be one, or a number another, without
`aotc.engines.openvino.openvino_repairs` and `chains`."""

REFUSED = {
    "binary.add.float16": "a parameter of f16",
    "binary.add.int8": "stablehlo.add of i8",
    "binary.div.int32": "stablehlo.divide of i32",
    "binary.max.int32": "stablehlo.maximum of i32",
    "binary.rem.float32": "stablehlo.remainder",
    "convert.float32.int32": "stablehlo.convert of f32 to i32",
    "dot.inner.float32": "stablehlo.dot_general of two vectors",
    "dot.matrix.bfloat16": "a parameter of bf16",
    "dot.overflow.int32": "stablehlo.dot_general of i32",
    "reduce.sum.1.int32": "stablehlo.reduce of i32",
    "scatter.max_of_none.float32": "stablehlo.scatter of f32 with a maximum or minimum",
    "sort.plain.float32": "stablehlo.sort",
    "unary.tan.float32": "stablehlo.tan",
    "window.max.dilated.float32": "stablehlo.reduce_window with dilations",
}


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    one = Child("openvino", tmp_path_factory.mktemp("edges") / "said")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("X64", "0")
        yield one
    one.end()


@pytest.mark.parametrize("first", range(0, len(EXACT), TOGETHER))
def test_what_is_taken_gives_what_xla_gives(first: int, child: Child) -> None:
    found = child.run(EXACT[first : first + TOGETHER])
    assert not [each for each in found if each.found not in ("same", "near")]


def test_what_is_repaired_differs_in_zeros_and_denormal_numbers_at_most(child: Child) -> None:
    found = child.run(REPAIRED)
    assert not [each for each in found if each.found not in ("same", "near", "small")]


def test_what_differs_is_refused_by_its_operation(child: Child) -> None:
    found = {name: child.run([name])[0] for name in REFUSED}
    assert {name: each.found for name, each in found.items()} == dict.fromkeys(REFUSED, "refused")
    assert all(REFUSED[name] in each.told for name, each in found.items()), found


def test_programs_have_names_that_are_in_the_table() -> None:
    assert {*EXACT, *REPAIRED, *REFUSED} <= {*PROGRAMS}
