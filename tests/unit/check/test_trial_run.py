"""A trial pads or splits as the loader does, and tells what comes of it."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from aotc.check.trial_records import Array, Call, EntryTrials, Outcome, Sizes, Trial
from aotc.check.trial_run import Subject, difference, fill_of, run
from aotc.check.trial_verdict import leaks, proofs
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, TensorSpec, TrialRan
from aotc_runtime.schema.manifest_labels import executable_key
from aotc_runtime.serving.readiness import Difference

X = TensorSpec(path="x", dtype=DType.FLOAT32, shape=("batch", "seq"), weak_type=False)
MASK = TensorSpec(path="mask", dtype=DType.BOOL, shape=("seq",), weak_type=False)
LENGTH = TensorSpec(path="n", dtype=DType.INT32, shape=(), weak_type=False)
ROWS = TensorSpec(path="y", dtype=DType.FLOAT32, shape=("batch", "seq"), weak_type=False)
SUM = TensorSpec(path="sum", dtype=DType.FLOAT32, shape=("batch",), weak_type=False)
ALL = TensorSpec(path="all", dtype=DType.FLOAT32, shape=(), weak_type=False)


def call(batch: int, seq: int) -> Call:
    return Call(executable_key("f", {"batch": batch, "seq": seq}))


PADDED = Trial(call(2, 3), ("seq",), ({"batch": 2, "seq": 5},), "nan")
SPLIT = Trial(call(3, 2), ("batch",), ({"batch": 2, "seq": 2}, {"batch": 1, "seq": 2}))
ENTRY = EntryTrials("f", rtol=0.0, atol=0.0)


def tried(trial: Trial, subject: Subject, inputs: list[Array], expected: list[Array]) -> Difference:
    """The difference of a trial from plain JAX's results, to the bit."""
    return difference(trial, run(trial, subject, inputs), expected, subject.outputs, 0.0, 0.0)


def numbers(*shape: int) -> Array:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def test_padding_that_stays_where_it_is_is_cut_off() -> None:
    x = numbers(2, 3)

    def twice(sizes: Sizes, leaves: list[Array]) -> list[Array]:
        assert sizes == {"batch": 2, "seq": 5}
        assert np.isnan(leaves[0][:, 3:]).all()
        return [leaves[0] * 2]

    outcome = tried(PADDED, Subject(ENTRY, [X], [ROWS], twice), [x], [x * 2])
    assert outcome == Difference(0.0, 0.0, 0, 6, True, 0.0, "y")


def test_padding_that_leaks_is_told_with_the_output() -> None:
    x = numbers(2, 3)
    leaking = Subject(ENTRY, [X], [ROWS, SUM], lambda _, leaves: [leaves[0], leaves[0].sum(1)])
    outcome = tried(PADDED, leaking, [x], [x, x.sum(1)])
    assert (outcome.within, outcome.worst, outcome.max_abs) == (False, "sum", np.inf)


def test_masks_and_lengths_tell_the_real_part() -> None:
    entry = replace(ENTRY, masks={"mask": ("seq",)}, lengths={"n": "seq"})
    x, seen = numbers(2, 3), []

    def execute(_: Sizes, leaves: list[Array]) -> list[Array]:
        seen.extend(leaves[1:])
        return [leaves[0]]

    inputs, expected = [x, np.ones(3, np.bool_), np.asarray(3, np.int32)], [x]
    tried(PADDED, Subject(entry, [X, MASK, LENGTH], [ROWS], execute), inputs, expected)
    assert seen[0].tolist() == [True, True, True, False, False]
    assert (seen[1].item(), seen[1].dtype) == (3, np.int32)


def test_an_input_that_holds_its_fill_does_so_in_every_trial() -> None:
    entry = replace(ENTRY, fills={"x": "7"}, held=("x",))
    x = numbers(2, 3)

    def execute(_: Sizes, leaves: list[Array]) -> list[Array]:
        assert (leaves[0][:, 3:] == 7).all()
        return [leaves[0]]

    assert tried(PADDED, Subject(entry, [X], [ROWS], execute), [x], [x]).within


def test_a_split_joins_what_its_parts_give() -> None:
    x, sizes = numbers(3, 2), []

    def execute(at: Sizes, leaves: list[Array]) -> list[Array]:
        sizes.append(at["batch"])
        return [leaves[0] * 2, np.float32(4)]

    inputs, expected = [x], [x * 2, np.asarray(4, np.float32)]
    assert tried(SPLIT, Subject(ENTRY, [X], [ROWS, ALL], execute), inputs, expected).within
    assert sizes == [2, 1]


ROWS_MASK = TensorSpec(path="mask", dtype=DType.BOOL, shape=("batch", "seq"), weak_type=False)
BESIDE = Trial(call(1, 3), ("batch",), ({"batch": 3, "seq": 5},), "declared", beside={"seq": 1})


def means(leaves: list[Array], mask: Array) -> Array:
    return ((leaves[0] * mask).sum(1) / mask.sum(1)).astype(np.float32)


def test_rows_are_tried_before_and_behind_longer_and_shorter_ones() -> None:
    entry, x, seen = replace(ENTRY, masks={"mask": ("seq",)}), numbers(1, 3), []

    def execute(sizes: Sizes, leaves: list[Array]) -> list[Array]:
        assert (sizes, leaves[0].shape) == ({"batch": 3, "seq": 5}, (3, 5))
        assert (leaves[0][~leaves[1]] == 0).all()
        seen.append(leaves[1].sum(1).tolist())
        return [leaves[0], means(leaves, leaves[1])]

    inputs, expected = [x, np.ones((1, 3), np.bool_)], [x, x.mean(1)]
    assert tried(
        BESIDE, Subject(entry, [X, ROWS_MASK], [ROWS, SUM], execute), inputs, expected
    ).within
    assert seen == [[3, 5, 5], [5, 5, 3], [3, 1, 1], [1, 1, 3]]


def test_a_call_as_long_as_the_profile_is_tried_beside_shorter_ones_alone() -> None:
    entry, x, seen = replace(ENTRY, masks={"mask": ("seq",)}), numbers(1, 5), []

    def execute(_: Sizes, leaves: list[Array]) -> list[Array]:
        seen.append(leaves[1].sum(1).tolist())
        return [leaves[0]]

    trial = replace(BESIDE, call=call(1, 5))
    inputs, expected = [x, np.ones((1, 5), np.bool_)], [x]
    assert tried(trial, Subject(entry, [X, ROWS_MASK], [ROWS], execute), inputs, expected).within
    assert seen == [[5, 1, 1], [1, 1, 5]]


@pytest.mark.parametrize("row", [0, -1], ids=["the first", "the last"])
def test_a_mask_of_another_row_shows_and_is_neither_refused_nor_evidence(row: int) -> None:
    entry, x = replace(ENTRY, masks={"mask": ("seq",)}), numbers(1, 3)

    def execute(_: Sizes, leaves: list[Array]) -> list[Array]:
        return [means(leaves, leaves[1][[row]])]

    inputs, expected = [x, np.ones((1, 3), np.bool_)], [x.mean(1)]
    outcome = tried(BESIDE, Subject(entry, [X, ROWS_MASK], [SUM], execute), inputs, expected)
    assert not outcome.within
    found = [Outcome(BESIDE, outcome)]
    assert not list(leaks(entry, found, "plain JAX", lambda *_: "place"))
    assert proofs(found, TrialRan.EXECUTABLE) == {}


def test_an_output_without_the_dimension_has_to_be_alike_in_every_part() -> None:
    x = np.asarray([[1, 1], [1, 1], [2, 2]], np.float32)

    def largest(_: Sizes, leaves: list[Array]) -> list[Array]:
        return [leaves[0], leaves[0].min()]

    outcome = tried(SPLIT, Subject(ENTRY, [X], [ROWS, ALL], largest), [x], [x, x.min()])
    assert (outcome.within, outcome.worst) == (False, "all")


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("fill", ["nan", "inf", "largest", "smallest", "ones", "declared"])
def test_every_dtype_has_every_fill(dtype: DType, fill: str) -> None:
    value = fill_of(EntryTrials("f", 0.0, 0.0, fills={"x": "1"}), "x", dtype, fill)
    assert (value.shape, value.dtype) == ((), numpy_dtype(dtype))


@pytest.mark.parametrize(
    ("fill", "dtype", "expected"),
    [
        ("largest", DType.INT8, 127),
        ("smallest", DType.INT8, -128),
        ("largest", DType.BOOL, True),
        ("smallest", DType.BOOL, False),
        ("largest", DType.FLOAT32, np.finfo(np.float32).max),
        ("nan", DType.INT32, 5),
        ("ones", DType.UINT16, 1),
    ],
)
def test_fills_are_extremes_of_the_dtype(fill: str, dtype: DType, expected: Any) -> None:
    declared = "False" if dtype is DType.BOOL else "5"
    entry = EntryTrials("f", 0.0, 0.0, fills={"x": declared})
    assert fill_of(entry, "x", dtype, fill) == expected


def at(*keys: str) -> str:
    return ".".join(keys)


GOOD = Difference(0.0, 0.0, 0, 1, True, 0.0, "y")
BAD = Difference(0.5, 0.25, 9, 1, False, 2.0, "y")


def of(entry: EntryTrials, differences: list[Difference]) -> list[Outcome]:
    return [Outcome(*each) for each in zip(entry.trials, differences, strict=True)]


def test_a_dimension_that_leaks_is_refused_once_with_the_numbers() -> None:
    trials = (PADDED, replace(PADDED, fill="ones"), replace(PADDED, fill="largest"))
    entry = replace(ENTRY, trials=trials)
    worse = replace(BAD, max_abs=np.inf)
    (finding,) = leaks(entry, of(entry, [GOOD, BAD, worse]), "the executables for t", at)
    assert (finding.code, finding.where) == (
        "AOTC-E955",
        "entry_points.f.out_of_profile.seq, output y",
    )
    assert finding.expected == "the result of plain JAX at exactly batch=2,seq=3"
    assert "padded to batch=2,seq=5 and filled with the largest numbers" in finding.found
    assert "max abs error inf, max rel error 0.25, 9 ulp; 2 of 3 trials differ" in finding.found


def test_what_calls_would_really_hold_is_told_first() -> None:
    entry = replace(ENTRY, trials=(PADDED, replace(PADDED, fill="declared")))
    outcomes = [replace(BAD, max_abs=np.inf), BAD]
    (finding,) = leaks(entry, of(entry, outcomes), "plain JAX itself", at)
    assert "filled with what is declared" in finding.found


def test_dimensions_that_leak_alone_are_not_refused_together_again() -> None:
    both = replace(PADDED, dimensions=("batch", "seq"))
    entry = replace(ENTRY, trials=(PADDED, both))
    assert len(list(leaks(entry, of(entry, [BAD, BAD]), "t", at))) == 1
    (finding,) = leaks(entry, of(entry, [GOOD, BAD]), "t", at)
    assert finding.where.startswith("entry_points.f.out_of_profile.batch and seq")


def test_a_split_that_differs_is_refused_with_its_parts() -> None:
    entry = replace(ENTRY, trials=(SPLIT,))
    (finding,) = leaks(entry, of(entry, [BAD]), "plain JAX itself", at)
    assert finding.code == "AOTC-E956"
    assert "split into batch=2,seq=2 and batch=1,seq=2" in finding.found


def test_the_evidence_says_what_ran() -> None:
    both = replace(PADDED, dimensions=("batch", "seq"))
    entry = replace(ENTRY, trials=(PADDED, both))
    found = [Outcome(Trial(call(2, 3)), GOOD), *of(entry, [GOOD, replace(BAD, max_abs=np.inf)])]
    proof = proofs(found, TrialRan.PLAIN_JAX)
    assert [len(proof["seq"]), len(proof["batch"])] == [2, 1]
    trial = proof["batch"][0]
    assert (trial.max_abs, trial.max_rel, trial.ran) == ("inf", "0.25", TrialRan.PLAIN_JAX)


def hint(trial: Trial, max_rel: float, **known: Any) -> str:
    entry = replace(ENTRY, rtol=1e-5, atol=1e-6, **known)
    (finding,) = leaks(entry, [Outcome(trial, replace(BAD, max_rel=max_rel))], "t", at)
    return finding.hint


@pytest.mark.parametrize(
    ("trial", "high", "advised"), [(PADDED, 4, True), (PADDED, 3, False), (SPLIT, 4, False)]
)
def test_numbers_above_the_callers_size_are_told(trial: Trial, high: int, advised: bool) -> None:
    said = hint(trial, 0.5, ranges={"lengths": (1, high)})
    assert ("`minimum(lengths, size)`" in said) == advised
    for fill, is_by_value in (("declared", False), ("ones", True)):
        said = hint(replace(PADDED, fill=fill), 0.5)
        assert ("callers may pass the fill's number" in said) == is_by_value


@pytest.mark.parametrize(
    ("trial", "advice"),
    [(PADDED, "before sums, means and maxima"), (SPLIT, "depend on each other")],
)
def test_rounding_difference_is_told_with_tolerance(trial: Trial, advice: str) -> None:
    small = hint(trial, 3e-5)
    assert "raise `tolerance` of f, now rtol = 1e-05, atol = 1e-06" in small
    assert advice in small
    for large in (0.5, float("inf")):
        assert "tolerance" not in hint(trial, large)
        assert advice in hint(trial, large)
    assert "another 8-bit step: if it is that, raise `tolerance` of f" in hint(
        trial, 0.5, rounds=True
    )
    assert "tolerance" not in hint(trial, float("inf"), rounds=True)
