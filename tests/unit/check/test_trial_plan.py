"""Calls that are tried for a policy."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from aotc.base.stages import CapturedEntryPoint
from aotc.check.trial_inputs import KINDS
from aotc.check.trial_plan import plan_trials, ranges, trial_leaves
from aotc.check.trial_records import EntryTrials, Sizes, Trial
from aotc.config.build_manifest import DimensionSpec, EntryPointSpec, FixtureSpec, InputLeaf
from aotc.config.manifest_specs import ToleranceSpec
from aotc_runtime.schema.bundle_manifest import (
    DimensionPolicy,
    DType,
    KeyImpl,
    Pad,
    Split,
    TensorSpec,
)
from aotc_runtime.schema.pytrees import Leaf

PAD = Pad(fill={}, mask="", length="", proof=())
SPLIT = Split(proof=())


def tensor(path: str, shape: tuple[int | str, ...], dtype: DType = DType.FLOAT32) -> TensorSpec:
    return TensorSpec(path=path, dtype=dtype, shape=shape, weak_type=False)


def entry_point(
    policies: Mapping[str, DimensionPolicy], relations: tuple[str, ...], fixtures: FixtureSpec
) -> EntryPointSpec:
    return EntryPointSpec(
        function="m:f",
        bind={},
        inputs={},
        static={},
        donate=(),
        profiles=(),
        relations=relations,
        policies=policies,
        tolerance=ToleranceSpec(rtol=1e-5, atol=0.0),
        fixtures=fixtures,
    )


def planned(
    policies: Mapping[str, DimensionPolicy],
    profiles: list[Sizes],
    *,
    inputs: tuple[TensorSpec, ...] = (tensor("x", ("batch", "seq")),),
    relations: tuple[str, ...] = (),
    multiple_of: int = 1,
    held: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> EntryTrials:
    captured = CapturedEntryPoint(
        name="f",
        function="m:f",
        parameters=(),
        inputs=inputs,
        result=Leaf(0),
        outputs=(tensor("", ("batch",)),),
        dimensions=("batch", "seq"),
        bound={},
        static={},
        lifted=(),
        profiles=(),
    )
    spec = entry_point(policies, relations, FixtureSpec(file=None, seed=0, ranges=held))
    dimension = DimensionSpec(range=(1, 64), multiple_of=multiple_of)
    entry = plan_trials(captured, spec, {"batch": dimension, "seq": dimension}, profiles)
    values = [trial for trial in entry.trials if not trial.dimensions]
    assert [(t.call.sizes, t.call.inputs) for t in values] == [
        (sizes, kind) for sizes in profiles for kind in ("fixture", *KINDS)
    ]
    return replace(entry, trials=entry.trials[len(values) :])


def declared(entry: EntryTrials) -> list[Trial]:
    return [t for t in entry.trials if (t.fill, t.call.inputs) == ("declared", "fixture")]


def test_each_profile_is_tried_with_the_first_a_middle_and_the_last_size_it_takes() -> None:
    entry = planned({"seq": PAD}, [{"batch": 1, "seq": 8}, {"batch": 1, "seq": 32}])
    tried = [(t.call.sizes["seq"], t.profiles[0]["seq"]) for t in declared(entry)]
    assert tried == [(1, 8), (4, 8), (7, 8), (9, 32), (20, 32), (31, 32)]


def test_only_accepted_sizes_are_tried() -> None:
    entry = planned({"seq": PAD}, [{"batch": 8, "seq": 32}], multiple_of=8)
    assert [t.call.sizes["seq"] for t in declared(entry)] == [8, 16, 24]
    assert not planned({"seq": PAD}, [{"batch": 8, "seq": 8}], multiple_of=8).trials


def test_calls_that_a_relation_forbids_are_not_tried() -> None:
    entry = planned({"seq": PAD}, [{"batch": 1, "seq": 8}], relations=("seq >= 4",))
    assert [t.call.sizes["seq"] for t in declared(entry)] == [4, 5, 7]


def beside(entry: EntryTrials) -> list[tuple[Sizes, Sizes, str]]:
    return [(t.call.sizes, t.profiles[0], t.call.inputs) for t in entry.trials if t.beside]


def test_calls_of_other_sizes_are_tried_beside_each_other_where_they_may_be_split() -> None:
    profiles = [{"batch": b, "seq": s} for s in (8, 32) for b in (1, 4, 16)]
    entry = planned({"batch": SPLIT, "seq": PAD}, profiles)
    kinds = ["fixture", "low", "high"]
    assert beside(entry) == [
        ({"batch": 1, "seq": size}, {"batch": 4, "seq": seq}, kind)
        for seq in (8, 32)
        for size, kind in [*((1, kind) for kind in kinds), (seq, "fixture")]
    ]
    assert {t.dimensions for t in entry.trials if t.beside} == {("batch",)}
    assert all(t.beside == {"seq": 1} and t.fill == "declared" for t in entry.trials if t.beside)


def test_rows_that_have_no_size_of_their_own_are_tried_beside_no_others() -> None:
    profiles = [{"batch": b, "seq": 8} for b in (1, 4)]
    by_row = tensor("mask", ("batch", "seq"), DType.BOOL)
    for_all = tensor("mask", ("seq",), DType.BOOL)
    masked = replace(PAD, mask="mask")
    for policy, more, count in (
        (masked, (by_row,), 4),
        (masked, (for_all,), 0),
        (replace(PAD, length="n"), (tensor("n", (), DType.INT32),), 0),
    ):
        inputs = (tensor("x", ("batch", "seq")), *more)
        entry = planned({"batch": SPLIT, "seq": policy}, profiles, inputs=inputs)
        assert len(beside(entry)) == count
    assert not beside(planned({"batch": SPLIT}, profiles))
    assert not beside(planned({"batch": SPLIT, "seq": PAD}, [{"batch": 1, "seq": 8}]))


def test_two_padded_dimensions_are_tried_together_too() -> None:
    entry = planned({"batch": PAD, "seq": PAD}, [{"batch": 4, "seq": 8}])
    together = [t for t in declared(entry) if len(t.dimensions) == 2]
    assert [(t.dimensions, t.call.sizes) for t in together] == [
        (("batch", "seq"), {"batch": 1, "seq": 1})
    ]


def test_floats_are_filled_with_nan_and_infinity_and_every_number_with_its_extremes() -> None:
    fills = {t.fill for t in planned({"seq": PAD}, [{"batch": 1, "seq": 8}]).trials}
    assert fills == {"declared", "nan", "inf", "largest", "smallest", "ones"}
    integers = (tensor("x", ("batch", "seq"), DType.INT32),)
    fills = {
        t.fill for t in planned({"seq": PAD}, [{"batch": 1, "seq": 8}], inputs=integers).trials
    }
    assert fills == {"declared", "largest", "smallest", "ones"}


def test_integers_of_a_range_are_filled_with_its_edges_beside_numbers_of_the_other_half() -> None:
    entry = planned(
        {"seq": PAD},
        [{"batch": 1, "seq": 8}],
        inputs=(tensor("x", ("batch", "seq")), tensor("tokens", ("seq",), DType.INT32)),
        held={"tokens": (5, 63)},
    )
    filled = {(t.fill, t.call.inputs): t.filled for t in entry.trials}
    tokens = {kind: numbers["tokens"] for kind, numbers in filled.items()}
    assert tokens == {
        **{(fill, "fixture"): "0" for fill in ("declared", "nan", "inf")},
        ("largest", "fixture"): "63",
        ("largest", "low"): "63",
        ("smallest", "fixture"): "5",
        ("smallest", "high"): "5",
        ("ones", "fixture"): "34",
        ("declared", "low"): "0",
        ("declared", "high"): "0",
        ("declared", "mixed"): "0",
        ("declared", "reversed"): "0",
        ("declared", "fill-row"): "0",
        ("declared", "nan-row"): "0",
        ("declared", "infinite-row"): "0",
    }
    assert filled["largest", "fixture"]["x"] == str(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("stated", "held", "expected"),
    [
        ({"tokens": (0, 63)}, [1, 2], {"tokens": (0, 63)}),
        ({}, [9, 2, 40], {"tokens": (2, 40)}),
        ({"x": (-1.0, float("inf"))}, [9, 2], {"tokens": (2, 9)}),
        ({"tokens": (7, 7)}, [7, 7], {}),
        ({}, [7, 7], {}),
        ({}, [], {}),
    ],
)
def test_integers_hold_what_is_stated_or_else_recorded(
    stated: dict[str, tuple[float, float]], held: list[int], expected: dict[str, tuple[int, int]]
) -> None:
    spec = entry_point({}, (), FixtureSpec(file=None, seed=0, ranges=stated))
    tensors = (
        tensor("x", ("seq",)),
        tensor("tokens", ("seq",), DType.INT32),
        tensor("keep", ("seq",), DType.BOOL),
        replace(tensor("key", (2,), DType.UINT32), key_impl=KeyImpl.THREEFRY2X32),
    )
    fixture = {each.path: np.asarray(held, np.int32) for each in tensors}
    assert ranges(tensors, spec, [fixture]) == expected


@pytest.mark.parametrize(
    ("dtype", "fill", "held", "marks"),
    [
        (DType.BOOL, {"keep": "False"}, ("keep",), {}),
        (DType.BOOL, {}, ("keep",), {"keep": "true"}),
        (DType.INT32, {"keep": "0"}, ("keep",), {}),
        (DType.INT32, {}, (), {"keep": "0"}),
    ],
)
def test_what_may_be_a_caller_mask_holds_its_fill_or_is_named(
    dtype: DType, fill: dict[str, str], held: tuple[str, ...], marks: dict[str, str]
) -> None:
    own = (tensor("x", ("batch", "seq")), tensor("keep", ("seq",), dtype))
    pad = Pad(fill=fill, mask="", length="", proof=())
    bounds = {} if dtype is DType.BOOL else {"keep": (0, 1)}
    entry = planned({"seq": pad}, [{"batch": 1, "seq": 8}], inputs=own, held=bounds)
    assert (entry.held, entry.marks) == (held, marks)


def test_integers_beyond_one_are_filled_with_their_edges_whatever_is_declared() -> None:
    own = (tensor("x", ("batch", "seq")), tensor("tokens", ("seq",), DType.INT32))
    pad = Pad(fill={"tokens": "0"}, mask="", length="", proof=())
    entry = planned({"seq": pad}, [{"batch": 1, "seq": 8}], inputs=own, held={"tokens": (0, 63)})
    assert (entry.held, entry.marks) == ((), {})


def test_masks_and_lengths_are_known_by_their_path() -> None:
    inputs = (
        tensor("x", ("batch", "seq")),
        tensor("mask", ("seq",), DType.BOOL),
        tensor("n", (), DType.INT32),
    )
    pad = Pad(fill={}, mask="mask", length="n", proof=())
    entry = planned({"seq": pad}, [{"batch": 1, "seq": 8}], inputs=inputs)
    assert (entry.masks, entry.lengths) == ({"mask": ("seq",)}, {"n": "seq"})


def test_a_split_is_tried_as_twice_a_profile_as_two_different_ones_and_with_the_most_rows() -> None:
    for largest, more in ((40, [(48, [40, 8]), (64, [40, 8, 8, 8])]), (64, [(64, [8] * 8)])):
        profiles = [{"batch": size, "seq": 8} for size in (1, 8, largest)]
        every = planned({"batch": Split(proof=())}, profiles).trials
        trials = [t for t in every if t.call.inputs == "fixture"]
        tried = [(t.call.sizes["batch"], [p["batch"] for p in t.profiles]) for t in trials]
        assert tried == [(2, [1, 1]), (16, [8, 8]), (9, [8, 1]), *more]


def test_every_call_is_also_tried_with_inputs_that_are_all_low_and_all_high() -> None:
    for policy in (PAD, Split(proof=())):
        trials = planned({"batch": policy}, [{"batch": 8, "seq": 4}]).trials
        fixture, low, high = (
            {trial.call.sizes["batch"] for trial in trials if trial.call.inputs == inputs}
            for inputs in ("fixture", "low", "high")
        )
        assert fixture == low == high != set()


def test_low_beside_high_numbers_are_tried_at_the_smallest_size_below_each_profile() -> None:
    profiles = [{"batch": 4, "seq": 8}, {"batch": 4, "seq": 32}]
    for inputs in ("mixed", "reversed"):
        trials = [t for t in planned({"seq": PAD}, profiles).trials if t.call.inputs == inputs]
        tried = [(t.call.sizes["seq"], t.profiles[0]["seq"], t.fill) for t in trials]
        assert tried == [(1, 8, "declared"), (9, 32, "declared")]


@pytest.mark.parametrize(
    ("relations", "expected"),
    [((), [("batch",), ("seq",)]), (("seq == 2*batch",), [("batch", "seq")])],
)
def test_mixed_extremes_apart(relations: tuple[str, ...], expected: list[tuple[str, ...]]) -> None:
    policies: dict[str, DimensionPolicy] = {"batch": PAD, "seq": PAD}
    entry = planned(policies, [{"batch": 8, "seq": 16}], relations=relations)
    assert [t.dimensions for t in entry.trials if t.call.inputs == "mixed"] == expected


def test_sizes_that_a_relation_ties_together_are_tried_together() -> None:
    tied = ("seq >= 2*batch", "seq <= 2*batch")
    for relations in (tied, ("seq == 2*batch",)):
        policies = {"batch": PAD, "seq": PAD}
        entry = planned(policies, [{"batch": 8, "seq": 16}], relations=relations)
        tried = [(t.call.sizes["batch"], t.call.sizes["seq"]) for t in declared(entry)]
        assert tried == [(1, 2), (4, 8), (7, 14)]


def test_the_smallest_sizes_that_a_relation_allows_are_tried_together() -> None:
    policies = {"batch": PAD, "seq": PAD}
    entry = planned(policies, [{"batch": 8, "seq": 8}], relations=("batch*seq >= 8",))
    (together,) = [t for t in declared(entry) if len(t.dimensions) == 2]
    assert (together.call.sizes["batch"], together.call.sizes["seq"]) == (2, 4)


def test_a_split_that_a_relation_allows_only_beside_padding_is_tried_beside_padding() -> None:
    policies: dict[str, DimensionPolicy] = {"batch": Split(proof=()), "seq": PAD}
    entry = planned(policies, [{"batch": 8, "seq": 64}], relations=("batch*seq <= 512",))
    split = [t for t in entry.trials if not t.fill and t.call.inputs == "fixture"]
    assert [(t.call.sizes, t.profiles) for t in split] == [
        ({"batch": 8 * parts, "seq": 64 // parts}, ({"batch": 8, "seq": 64},) * parts)
        for parts in (2, 8)
    ]


@pytest.mark.parametrize("file", [None, "recorded.npz"])
def test_leaves_of_trials_are_described_by_the_manifest(file: Any) -> None:
    pad = Pad(fill={"keep": "True"}, mask="m", length="", proof=())
    fixtures = FixtureSpec(file=file, seed=0, ranges={"x": (0, 9)})
    leaves = {name: InputLeaf(("batch",), DType.BOOL) for name in ("x", "keep", "m")}
    spec = dataclasses.replace(entry_point({"batch": pad}, (), fixtures), inputs=leaves)
    shapes = {"x": ("batch", 3), "keep": ("batch",), "m": ("batch",), "made/k": (2,)}
    tensors = [tensor(path, shape, DType.BOOL) for path, shape in shapes.items()]
    x, keep, mask, made = trial_leaves(tensors, spec, dict.fromkeys(shapes, np.ones(2)))
    assert (x.bounds, x.fixed_axes, x.is_recorded) == ((0, 9), (False, True), file is not None)
    assert (keep.fill, x.fill, mask.is_fixed, keep.is_fixed) == (True, False, True, False)
    assert (made.is_made, made.is_recorded, keep.is_made) == (True, False, False)
