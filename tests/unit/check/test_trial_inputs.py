"""Inputs of value trials: which numbers they hold, and that a caller may pass them."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotc.check.value_inputs import (
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

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e8m0fnu")
INTEGERS = ("int4", "uint4", "int8", "int32", "uint32", "int64", "uint64")
SHAPES = ((), (1,), (6,), (1, 5), (3, 4), (0, 4))


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def _one(kind: str, **leaf: Any) -> np.ndarray[Any, Any]:
    given = {"path": "x", "dtype": _dtype("float32"), "shape": (8, 64), **leaf}
    (made,) = trial_inputs(kind, [TrialLeaf(**given)])
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool", "complex64"])
def test_trial_inputs_keep_dtype_and_shape_and_repeat(kind: str, name: str) -> None:
    for shape in SHAPES:
        leaf = TrialLeaf("x", _dtype(name), shape)
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
        leaf = TrialLeaf("x", _dtype(name), shape, bounds)
        (made,) = trial_inputs(kind, [leaf], [np.float32([3.0, 100.0])])
        wide = made.astype(np.float64)
        assert ((wide >= bounds[0]) & (wide <= bounds[1])).all()


def test_trial_inputs_other_differs_from_the_sample_in_every_element() -> None:
    zeros, some = np.zeros((4, 6), np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
    for sample in (zeros, some, np.ones_like(some), some % 3 == 0, (some % 5).astype(np.int32)):
        assert (_one(OTHER, dtype=sample.dtype, shape=(4, 6), sample=sample) != sample).all()


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
    leaf = TrialLeaf("x", _dtype("float32"), (3, 4))
    (made,) = trial_inputs(MAGNITUDES, [leaf], [mean])
    assert (np.abs(made / mean - 1) < 0.01).any(0).sum() >= 3
    assert np.abs(_one(MAGNITUDES)).max() / np.abs(_one(MAGNITUDES)).min() > 1e4


def test_trial_inputs_integers_and_booleans_reach_their_ends() -> None:
    extreme = _one(EXTREME, dtype=_dtype("int32"), bounds=(-2, 9))
    assert {extreme.min(), extreme.max()} == {-2, 9}
    assert _one(OFFSET, dtype=_dtype("bool")).all()
    assert not _one(EXTREME, dtype=_dtype("bool"), shape=(6,)).any()
    assert 0 < _one(NAN, dtype=_dtype("bool")).sum() < 8 * 64


def test_trial_inputs_leave_fixed_leaves_as_they_are() -> None:
    mask = np.array([True, True, False])
    for kind in KINDS:
        made = _one(kind, dtype=mask.dtype, shape=(3,), sample=mask, is_fixed=True)
        assert made.tobytes() == mask.tobytes()


def test_trial_inputs_keep_a_scalar_ordinary_beside_arrays() -> None:
    leaves = [TrialLeaf("x", _dtype("float32"), (4,)), TrialLeaf("t", _dtype("float32"), ())]
    assert np.isfinite(trial_inputs(NAN, leaves)[1])
    assert np.isnan(trial_inputs(NAN, leaves[1:])[0])
