"""Tests of the fixtures that run before a bundle is ready, and of their comparison."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aotc_runtime
from aotc_runtime import LoadedEntryPoint
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType, KeyImpl, TensorSpec
from aotc_runtime.serving import readiness
from aotc_runtime.serving.readiness import Difference, compare, over_all
from aotc_runtime.serving.resident_bundle import ResidentProfile
from tests.conftest import Bundle


@pytest.mark.parametrize(("seconds", "is_warmed"), [(0.0, False), (60.0, True)])
def test_only_what_runs_shortly_is_called_again_to_warm_up(
    seconds: float, is_warmed: bool, digits_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []
    warm = LoadedEntryPoint.warm

    def noted(self: LoadedEntryPoint, leaves: list[readiness.Array]) -> None:
        warmed.append(self.name)
        warm(self, leaves)

    monkeypatch.setattr(LoadedEntryPoint, "warm", noted)
    monkeypatch.setattr(readiness, "WARM_SECONDS_MAX", seconds)
    with aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1]) as bundle:
        fixtures = bundle.report()["fixtures"]
        assert len(warmed) == (len(fixtures) if is_warmed else 0)
        assert fixtures


Execute = Callable[[ResidentProfile, list[readiness.Array]], list[Any]]


def _keeping_the_first(execute: Execute) -> Execute:
    """Every call computes with the inputs of the first one: what a call left behind."""
    first: dict[str, list[readiness.Array]] = {}
    return lambda profile, inputs: execute(profile, first.setdefault(profile.label, inputs))


def _narrowing(execute: Execute) -> Execute:
    """Every call computes with the smallest of its numbers and those of earlier calls: a constant
    that calls overwrite. A second call with the same inputs shows nothing of it.
    """
    least: dict[str, list[readiness.Array]] = {}

    def called(profile: ResidentProfile, inputs: list[readiness.Array]) -> list[Any]:
        held = least.get(profile.label, inputs)
        least[profile.label] = [*map(np.minimum, held, inputs)]
        return execute(profile, least[profile.label])

    return called


def _wrong_every_third(execute: Execute) -> Execute:
    calls: Counter[str] = Counter()

    def called(profile: ResidentProfile, inputs: list[readiness.Array]) -> list[Any]:
        calls[profile.label] += 1
        wrong = calls[profile.label] % 3 == 0
        return execute(profile, [each * 0 for each in inputs] if wrong else inputs)

    return called


@pytest.mark.parametrize(
    ("doctored", "code"),
    [
        (_keeping_the_first, "AOTC-E701"),
        (_narrowing, "AOTC-E701"),
        (_wrong_every_third, "AOTC-E704"),
    ],
)
def test_results_that_depend_on_earlier_calls_are_refused(
    doctored: Callable[[Execute], Execute],
    code: str,
    digits_bundle: Bundle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "WARM_SECONDS_MAX", 60.0)
    monkeypatch.setattr(readiness, "execute", doctored(readiness.execute))
    with pytest.raises(AotcError) as caught:
        aotc_runtime.load(digits_bundle[0], trust=digits_bundle[1])
    assert {finding.code for finding in caught.value.findings} == {code}
    assert len(caught.value.findings) == 3


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array([True, False, False])])
def test_other_input_has_the_same_kind_and_other_numbers(array: readiness.Array) -> None:
    spec = TensorSpec(path="x", dtype=DType.FLOAT64, shape=array.shape, weak_type=False)
    other = readiness.other_input(array, spec)
    assert (other.dtype, other.shape) == (array.dtype, array.shape)
    assert (other != array).all()


def test_other_input_of_random_keys_has_other_bits() -> None:
    spec = TensorSpec(
        path="key", dtype=DType.UINT32, shape=(2,), weak_type=False, key_impl=KeyImpl.THREEFRY2X32
    )
    assert readiness.other_input(np.zeros(2, np.uint32), spec).tolist() == [2**32 - 1] * 2


FLOATS = [
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn),
    ml_dtypes.float8_e5m2,
]


def difference(actual: Any, expected: Any, dtype: Any, rtol: float = 0, atol: float = 0) -> Any:
    return compare(np.asarray(actual, dtype), np.asarray(expected, dtype), rtol, atol)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_numpys_or_ml_dtypes_name(dtype: DType) -> None:
    assert numpy_dtype(dtype).name == dtype.value


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_floats_differ_by_nothing(dtype: Any) -> None:
    values = np.asarray([0.0, 1.5, -2.0, np.nan], dtype)
    found = compare(values, values.copy(), 0, 0)
    assert (found.max_abs, found.max_rel, found.ulp_max, found.within) == (0, 0, 0, True)
    assert (found.elements, found.excess) == (4, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_next_float_is_one_unit_in_the_last_place_away(dtype: Any) -> None:
    one = np.asarray([1.0], dtype)
    bits = one.view(f"i{one.itemsize}") + 1
    found = compare(bits.view(one.dtype), one, 0, 0)
    assert found.ulp_max == 1 and not found.within
    assert found.max_abs == found.max_rel > 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_units_are_counted_across_zero(dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    smallest = np.asarray([1], f"i{size}").view(dtype)
    assert compare(smallest, np.negative(smallest), 0, np.inf).ulp_max == 2
    assert difference([0.0], [-0.0], dtype).ulp_max == 0
    assert difference([0.0], [-0.0], dtype).within


def test_the_farthest_doubles_do_not_overflow_the_count() -> None:
    largest = np.finfo(np.float64).max
    assert difference([largest], [-largest], np.float64).ulp_max == 2 * 0x7FEFFFFFFFFFFFFF


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_nan_equals_nan_and_nothing_else(dtype: Any) -> None:
    assert difference([np.nan], [np.nan], dtype).within
    assert difference([np.nan], [np.nan], dtype).ulp_max == 0
    other = difference([np.nan], [-np.nan], dtype)
    assert other.within and other.ulp_max == 0, "whatever its bits are"
    for actual, expected in ((np.nan, 1.0), (1.0, np.nan), (np.nan, np.inf), (np.inf, np.nan)):
        found = difference([actual], [expected], dtype, rtol=1e9, atol=1e9)
        assert not found.within
        assert found.max_abs == np.inf and found.max_rel == np.inf and found.excess == np.inf


def test_one_bad_element_among_many_is_enough() -> None:
    expected = np.ones(1000, np.float32)
    actual = expected.copy()
    actual[617] = 1.1
    found = compare(actual, expected, 1e-3, 0)
    assert not found.within and found.max_abs == pytest.approx(0.1, rel=1e-5)
    assert found.excess == pytest.approx(100, rel=1e-4)


@given(
    st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32), st.floats(0, 1), st.floats(0, 1)
)
def test_within_is_the_published_formula(a: float, e: float, rtol: float, atol: float) -> None:
    found = difference([a], [e], np.float64, rtol, atol)
    assert found.within == (abs(a - e) <= atol + rtol * abs(e))
    assert found.max_abs == abs(a - e)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_infinity_equals_itself_and_nothing_else(dtype: Any) -> None:
    assert difference([np.inf, -np.inf], [np.inf, -np.inf], dtype).within
    for actual, expected in ((np.inf, -np.inf), (np.inf, 1.0), (1.0, np.inf), (-np.inf, 0.0)):
        found = difference([actual], [expected], dtype, rtol=1e9, atol=1e9)
        assert not found.within and found.max_abs == np.inf
    small = difference([1e-9], [0.0], dtype, atol=1e-6)
    assert small.within and small.max_rel == np.inf


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_integers_must_be_equal_whatever_the_tolerance(dtype: Any) -> None:
    assert difference([1, 2], [1, 2], dtype).within
    found = difference([1, 5], [1, 2], dtype, rtol=1e9, atol=1e9)
    assert not found.within and found.max_abs == 3 and found.ulp_max == 3 and found.max_rel == 1.5
    assert found.excess == np.inf


def test_integers_that_differ_beyond_a_doubles_precision_are_not_equal() -> None:
    found = difference([2**63 - 1], [2**63 - 2], np.int64, rtol=1, atol=1)
    assert not found.within
    assert difference([True, False], [True, False], np.bool_).within
    assert not difference([True], [False], np.bool_, atol=9).within


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, ml_dtypes.bfloat16])
def test_arrays_without_elements_and_scalars_are_compared(dtype: Any) -> None:
    empty, scalar = difference([], [], dtype), difference(1, 1, dtype)
    assert (empty.within, empty.elements, scalar.within, scalar.elements) == (True, 0, True, 1)


def test_complex_numbers_are_compared_as_numbers_and_by_their_parts_in_units() -> None:
    found = difference([3 + 4j], [0j], np.complex64, atol=5)
    assert found.max_abs == 5 and found.within
    one = np.asarray([1 + 1j], np.complex64)
    parts = one.view(np.float32).copy()
    parts[1] = np.nextafter(parts[1], np.float32(2))
    assert compare(parts.view(np.complex64), one, 0, 1).ulp_max == 1


def test_several_arrays_together_are_as_far_as_the_farthest_of_them() -> None:
    near, far = difference([1.0], [1.0], np.float32), difference([1.0, 5.0], [1.0, 2.0], np.float32)
    together = over_all([("near", near), ("far", far), ("near", near)])
    assert (together.worst, together.within, together.elements) == ("far", False, 4)
    assert together.max_abs == far.max_abs and together.ulp_max == far.ulp_max
    assert over_all([("near", near)]).within


def test_what_is_beyond_its_tolerance_is_the_worst_however_close_it_is() -> None:
    beyond = Difference(0.1, 0.1, 1, 1, within=False, excess=1.0)
    within = Difference(9.0, 9.0, 9, 1, within=True, excess=1.0)
    assert over_all([("within", within), ("beyond", beyond)]).worst == "beyond"
    nothing = over_all([])
    assert (nothing.within, nothing.worst, nothing.elements) == (True, "", 0)
