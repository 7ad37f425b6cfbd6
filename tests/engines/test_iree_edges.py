"""Programs of `edge_programs` whose results IREE's code would give otherwise without a repair, and
what is refused, in children of `search`: a crash is a finding there.

All of the table: `python -m tests.engines.search run out/edges.jsonl --engine iree`, half an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .edge_programs import PROGRAMS
from .search import TOGETHER, Child

REPAIRED = (
    "binary.pow.float16",
    "binary.pow.float32",
    "binary.pow.float64",
    "conv.depthwise.float16",
    "conv.plain.bfloat16",
    "conv.plain.float16",
    "convert.bool.bfloat16",
    "convert.float64.float16",
    "convert.int32.bfloat16",
    "convert.float32.int8",
    "dot.converted.bool.bfloat16",
    "dot.converted.bool.float32",
    "dot.converted.bool.int32",
    "dot.converted.uint16.float64",
    "dot.converted.uint32.int64",
    "dot.converted.uint8.float32",
    "dot.converted.uint8.int32",
    "dot.matrix.float16",
    "dot.mixed",
    "dot.none_contracted.bool",
    "dot.uint8_to_int32",
    "filled.chosen.nansum",
    "filled.chosen.sum",
    "filled.exp.convolution",
    "filled.exp.nansum",
    "filled.exp.product",
    "filled.exp.sum",
    "filled.exp.window",
    "filled.filled.nansum",
    "gather.at.outside.fill",
    "gather.index.uint8.clip",
    "many.axes.float32",
    "many.mean.float32",
    "many.product.float32",
    "many.sum.float32",
    "mask.compared.float32",
    "mask.einsum.float32",
    "mask.row.float16",
    "mask.sum.float32",
    "mask.times.bfloat16",
    "mask.times.float32",
    "large.cos.float32",
    "large.sin.float32",
    "near.sin.float32",
    "scatter.add.outside.None.float32",
    "scatter.add_dtype.bfloat16",
    "scatter.batched.drop",
    "scatter.both.float32",
    "scatter.dtype.bool",
    "scatter.dtype.int8",
    "scatter.index.int64.fill",
    "scatter.index.uint32.fill",
    "scatter.index.uint8.clip",
    "scatter.max.outside.drop.int32",
    "scatter.min.outside.drop.float32",
    "scatter.set.outside.drop.float32",
    "scatter.set.outside.None.int32",
    "scatter.values.float32",
    "scatter.window.scatter.drop",
    "slice.index.int8",
    "slice.index.uint64",
    "slice.update_index.int8",
    "small.sin.float32",
    "sort.argsort_rows.float32",
    "sort.top_all.int32",
    "sort.top_rows.float32",
)

REFUSED = {
    "binary.atan2.float32": "stablehlo.atan2, which XLA has",
    "large.tan.float32": "stablehlo.tan, which XLA has",
    "many.running.float32": "stablehlo.reduce_window of sums of 9000 numbers",
    "part.depthwise.float32": "stablehlo.convolution of single numbers at a stride",
    "part.window_sum.float32": "stablehlo.reduce_window of single numbers at a stride",
    "scatter.dtype.complex64": "complex<f32>",
    "small.expm1.float64": "stablehlo.exponential_minus_one of float64",
    "small.log1p.float64": "stablehlo.log_plus_one of float64",
    "window.min_grad.float32": "stablehlo.select_and_scatter",
}


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    one = Child("iree", tmp_path / "said")
    yield one
    one.end()


@pytest.mark.parametrize("first", range(0, len(REPAIRED), TOGETHER))
def test_repaired_operations_give_what_xla_gives(first: int, child: Child) -> None:
    found = child.run(REPAIRED[first : first + TOGETHER])
    assert not [each for each in found if each.found not in ("same", "near")]


def test_what_cannot_be_repaired_is_refused_by_its_name(child: Child) -> None:
    found = {name: child.run([name])[0] for name in REFUSED}
    assert {name: each.found for name, each in found.items()} == dict.fromkeys(REFUSED, "refused")
    assert all(REFUSED[name] in each.told for name, each in found.items())


def test_programs_have_names_that_are_in_the_table() -> None:
    assert {*REPAIRED, *REFUSED} <= {*PROGRAMS}
