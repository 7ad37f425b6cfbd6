"""Inputs of trials: which numbers they hold, and that a caller may pass them."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotc.check.trial_inputs import (
    EXTREME,
    INFINITE,
    KINDS,
    MAGNITUDES,
    NAN,
    OFFSET,
    OTHER,
    TrialLeaf,
    trial_inputs,
)

ROW_VALUES = {"nan-row": np.nan, "infinite-row": np.inf, "fill-row": 7.0, "equal-rows": None}


@pytest.mark.parametrize("kind", ROW_VALUES)
def test_odd_rows_differ_along_dimensions_alone(kind: str) -> None:
    leaf = {"fill": np.float32(7), "fixed_axes": (False, True)}
    made = _one(kind, **leaf)
    expected = np.repeat(FLOATING[:1], 8, axis=0) if kind == "equal-rows" else FLOATING.copy()
    if kind != "equal-rows":
        expected[-1 if kind == "fill-row" else 0] = ROW_VALUES[kind]
    assert np.array_equal(made, expected, equal_nan=True)
    same = [{"is_fixed": True}, {"fixed_axes": (True, True)}]
    same += [{"bounds": (-9.0, 5.0)}] if kind != "equal-rows" else []
    for more in same if kind in ("fill-row", "equal-rows") else same[:2]:
        assert (_one(kind, **{**leaf, **more}) == FLOATING).all()


def test_a_row_of_integers_is_one_that_callers_may_pass() -> None:
    leaf = {"sample": np.int32([3, 4]), "fill": np.int32(0), "fixed_axes": (False,)}
    assert _one("fill-row", **leaf).tolist() == [3, 4]
    assert _one("fill-row", **leaf, bounds=(0, 9)).tolist() == [3, 0]


FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e8m0fnu")
INTEGERS = ("int4", "uint4", "int8", "int32", "uint32", "int64", "uint64")
SHAPES = ((), (1,), (6,), (1, 5), (3, 4), (0, 4))
FLOATING = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def _sample(
    name: str, shape: tuple[int, ...], bounds: tuple[float, float] = (0.0, 4.0)
) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(0).uniform(*bounds, shape)).astype(_dtype(name))


def _one(kind: str, **leaf: Any) -> np.ndarray[Any, Any]:
    (made,) = trial_inputs(kind, [TrialLeaf(**{"path": "x", "sample": FLOATING, **leaf})])
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool", "complex64"])
def test_trial_inputs_keep_dtype_and_shape_and_repeat(kind: str, name: str) -> None:
    for shape in SHAPES:
        leaf = TrialLeaf("x", _sample(name, shape))
        first, again = (trial_inputs(kind, [leaf])[0] for _ in range(2))
        assert (first.dtype, first.shape) == (leaf.dtype, shape)
        assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "bounds"),
    [("float32", (0.5, 4.0)), ("bfloat16", (-0.1, 0.3)), ("int32", (-3, 7)), ("uint8", (250, 255))],
)
def test_trial_inputs_keep_to_bounds(kind: str, name: str, bounds: tuple[float, float]) -> None:
    for shape in SHAPES:
        leaf = TrialLeaf("x", _sample(name, shape, bounds), bounds)
        (made,) = trial_inputs(kind, [leaf], [np.float32([3.0, 100.0])])
        wide = made.astype(np.float64)
        assert ((wide >= bounds[0]) & (wide <= bounds[1])).all()


def test_trial_inputs_other_differs_from_the_sample_in_every_element() -> None:
    zeros, some = np.zeros((4, 6), np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
    for sample in (zeros, some, np.ones_like(some), some % 3 == 0, (some % 5).astype(np.int32)):
        assert (_one(OTHER, sample=sample) != sample).all()


def test_trial_inputs_special_values_stand_among_ordinary_rows() -> None:
    nan, infinite, extreme = (_one(kind) for kind in (NAN, INFINITE, EXTREME))
    assert np.isnan(nan).any()
    assert np.isfinite(nan[::2]).all()
    assert {np.inf, -np.inf} <= set(infinite.ravel().tolist())
    assert not np.isnan(infinite).any()
    info = np.finfo(np.float32)
    held = set(extreme.ravel().tolist())
    assert {info.max, -info.max, info.smallest_normal, -info.smallest_normal} <= held
    assert np.signbit(extreme[extreme == 0]).any()
    assert (extreme[2] == 0).all()


def test_trial_inputs_offset_has_one_sign_far_from_zero() -> None:
    assert _one(OFFSET).min() >= 1000
    assert _one(OFFSET, bounds=(-8.0, 1.0)).max() <= -6


def test_trial_inputs_magnitudes_come_close_to_constants_of_the_program() -> None:
    mean = np.float32([101325.0, 2024.0, 1.7e9, 273.15])
    leaf = TrialLeaf("x", FLOATING[:3, :4])
    (made,) = trial_inputs(MAGNITUDES, [leaf], [mean])
    assert (np.abs(made / mean - 1) < 0.01).any(0).sum() >= 3
    assert np.abs(_one(MAGNITUDES)).max() / np.abs(_one(MAGNITUDES)).min() > 1e4


def test_trial_inputs_integers_and_booleans_reach_their_ends() -> None:
    booleans = _sample("bool", (8, 64))
    extreme = _one(EXTREME, sample=_sample("int32", (8, 64)), bounds=(-2, 9))
    assert {extreme.min(), extreme.max()} == {-2, 9}
    assert _one(OFFSET, sample=booleans).all()
    assert not _one(EXTREME, sample=booleans[0, :6]).any()
    assert 0 < _one(NAN, sample=booleans).sum() < 8 * 64


def test_trial_inputs_leave_fixed_leaves_as_they_are() -> None:
    mask = np.array([True, True, False])
    for kind in KINDS:
        made = _one(kind, sample=mask, is_fixed=True)
        assert made.tobytes() == mask.tobytes()


def test_trial_inputs_keep_a_scalar_ordinary_beside_arrays() -> None:
    leaves = [TrialLeaf("x", FLOATING[0, :4]), TrialLeaf("t", FLOATING[0, 0])]
    assert np.isfinite(trial_inputs(NAN, leaves)[1])
    assert np.isnan(trial_inputs(NAN, leaves[1:])[0])


def _leaf(
    path: str, shape: tuple[int | str, ...], dtype: str = "float32", **more: Any
) -> TrialLeaf:
    """A leaf of five rows, whose axes that are integers carry no dimension."""
    sizes = tuple(axis if isinstance(axis, int) else 5 for axis in shape)
    fixed = tuple(isinstance(axis, int) for axis in shape)
    return TrialLeaf(path, np.ones(sizes, _dtype(dtype)), fixed_axes=fixed, **more)


@pytest.mark.parametrize("sample", ["low", "high"])
@pytest.mark.parametrize("shape", [(), (2,), ("rows",), ("rows", 2), (2, "2*rows")])
def test_an_integer_holds_the_edge_of_its_range(sample: str, shape: tuple[int | str, ...]) -> None:
    edge = {"low": 3, "high": 1003}[sample]
    (array,) = trial_inputs(sample, [_leaf("pos", shape, "int32", bounds=(3, 1003))])
    first = tuple(slice(None) if isinstance(axis, int) else 0 for axis in shape)
    assert (array[first] == edge).all()
    assert ((array <= 503) == (sample == "low")).all()


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [((-1, 1), {-1}, {1}), ((-2, 2), {-2, -1}, {1, 2}), ((0, 1), {0}, {1}), ((0, 0), {0}, {0})],
)
def test_zero_is_in_neither_half(bounds: tuple[int, int], low: set[int], high: set[int]) -> None:
    leaf = _leaf("x", ("rows", 40), "int32", bounds=bounds)
    for kind, numbers in (("low", low), ("high", high)):
        assert set(trial_inputs(kind, [leaf])[0].ravel().tolist()) == numbers


@pytest.mark.parametrize(("sample", "sign"), [("mixed", 1), ("reversed", -1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_low_and_high_numbers_take_turns(sample: str, sign: int, dtype: str) -> None:
    bounds = (-9, 9) if dtype == "int32" else None
    leaves = [
        _leaf("s", (), dtype, bounds=bounds),
        _leaf("mask", ("rows",), "bool", is_fixed=True),
        _leaf("d", ("rows", 3), dtype, bounds=bounds),
        _leaf("e", (2, "rows", 2), dtype, bounds=bounds),
    ]
    s, mask, d, e = trial_inputs(sample, leaves)
    assert mask.all()
    assert (np.sign(d.astype(np.float32)) * sign).tolist() == [[-1, 1, -1]] * 5
    assert (np.sign(e.astype(np.float32)) * sign).tolist() == [[[1, -1]] * 5, [[-1, 1]] * 5]
    assert np.sign(s.astype(np.float32)) * sign == -1


@pytest.mark.parametrize("fill", [False, True])
def test_high_booleans_hold_what_padding_does_not(fill: bool) -> None:
    drawn = np.array([True, False, True, False, False])
    (high,) = trial_inputs("high", [TrialLeaf("keep", drawn, fill=fill)])
    assert (high != fill).all()


def test_integers_that_a_function_makes_take_their_stated_range() -> None:
    sample = np.zeros((4, 3), np.int32)
    leaf = TrialLeaf("x", sample, (0, 9), is_made=True, fixed_axes=(False, True))
    low, high = (trial_inputs(kind, [leaf])[0] for kind in ("low", "high"))
    assert (low[0] == 0).all() and low.max() <= 4 < high.min() and (high[0] == 9).all()
    rising = trial_inputs("rising", [leaf])[0]
    assert rising[:2].max() <= 4 < rising[2:].min()


def test_what_a_function_makes_stays_but_for_floats_and_booleans() -> None:
    for sample in (np.arange(4), np.uint32([1, 2])):
        for kind in ("low", "high", "mixed", "reversed"):
            leaf = TrialLeaf("x", sample, is_made=True, fixed_axes=(False,))
            assert trial_inputs(kind, [leaf])[0].tolist() == sample.tolist()
    done = TrialLeaf("x", np.zeros(64, bool), is_made=True, fixed_axes=(False,))
    low, high, late = (trial_inputs(kind, [done])[0] for kind in ("low", "high", "rising"))
    assert (low.any(), high.all()) == (False, True)
    assert (late == (np.arange(64) >= 32)).all()
    recorded = TrialLeaf("x", np.float32([2, 4]), is_made=True)
    least, most = (trial_inputs(kind, [recorded])[0].min() for kind in ("low", "high"))
    assert 2 <= least <= 3 <= most
