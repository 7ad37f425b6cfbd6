"""Tests of verdicts on differences between an executable and plain JAX."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from aotc.check.trial_truth import Truth, Verdict, second_opinion, verdict_of, worst_of

EXACT = np.array([1000.0, 1e-3, 1.0, 2.0])
PLAIN = EXACT.astype(np.float32)
RTOL, ATOL = 1e-5, 1e-6


def _judged(found: Any, plain: Any = PLAIN, exact: Any = EXACT, **truth: Any) -> Verdict:
    return verdict_of(
        "y", np.asarray(found), np.asarray(plain), Truth([exact], **truth), RTOL, ATOL
    )


def test_judge_accepts_what_is_within_the_tolerance_of_plain_jax() -> None:
    verdict = verdict_of("y", PLAIN, PLAIN, None, RTOL, ATOL)
    assert (verdict.right, verdict.different) == (True, 0)


def test_judge_tells_how_many_elements_differ_where_and_by_how_much() -> None:
    found = PLAIN + np.float32([0, 0.5, 0, 0.25])
    verdict = _judged(found)
    assert (verdict.right, verdict.wrong) == (False, "engine")
    assert (verdict.different, verdict.elements, verdict.first) == (2, 4, (1,))
    assert verdict.median == pytest.approx(0.375)
    assert verdict.found == pytest.approx(0.5)


def test_judge_accepts_an_executable_that_is_closer_to_the_truth() -> None:
    verdict = _judged(EXACT.astype(np.float32), plain=PLAIN + np.float32(0.1))
    assert (verdict.right, verdict.wrong) == (True, "plain JAX")


@pytest.mark.parametrize(("times", "right"), [(5, True), (50, False)])
def test_judge_accepts_errors_of_the_size_of_plain_jaxs(times: float, right: bool) -> None:
    error = np.float32([1, 0, 0, 0])
    verdict = _judged(PLAIN - error * times, plain=PLAIN + error)
    assert verdict.right is right


def test_judge_refuses_a_large_relative_error_beside_a_large_number() -> None:
    plain = PLAIN + np.float32([0.02, 0, 0, 0])
    assert not _judged(PLAIN + np.float32([0, 0.02, 0, 0]), plain=plain).right


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_judge_refuses_nan_and_infinities_at_other_places(value: float) -> None:
    plain = PLAIN.copy()
    plain[1] = value
    exact = plain.astype(np.float64)
    assert not _judged(PLAIN, plain=plain, exact=exact).right
    assert not _judged(plain, plain=PLAIN).right
    assert _judged(plain, plain=plain, exact=exact).right


def test_judge_takes_an_overflow_of_float32_as_plain_jax_has_it() -> None:
    exact = np.array([1e60, 1.0])
    plain = np.float32([np.inf, 1.0])
    assert _judged(plain, plain=plain, exact=exact).right
    assert not _judged(np.float32([3e38, 1.0]), plain=plain, exact=exact).right


def test_judge_takes_errors_of_plain_jaxs_size_where_only_its_sums_overflow() -> None:
    exact, plain = np.array([1e33, 1e38]), np.float32([np.nan, 1e38])
    near = [(np.float32([1.001e33, 1e38]), exact)]
    assert _judged(np.float32([1.005e33, 1e38]), plain, exact, neighbours=near).right
    assert not _judged(np.float32([1.02e33, 1e38]), plain, exact, neighbours=near).right
    assert not _judged(np.float32([np.inf, 1e38]), plain, exact, neighbours=near).right


def test_judge_accepts_another_way_to_compute_the_truth() -> None:
    plain, found = np.float32([1.0]), np.float32([np.nan])
    truth = Truth([np.array([1.0]), np.array([np.nan])])
    assert verdict_of("y", found, plain, truth, RTOL, ATOL).right


def test_judge_counts_wrong_whole_numbers() -> None:
    exact = np.arange(8, dtype=np.int32)
    off = exact + np.int32([0, 1, 0, 0, 0, 0, 0, 0])
    assert not _judged(off, plain=exact, exact=exact).right
    assert _judged(off, plain=exact[::-1].copy(), exact=exact).right
    neighbours = [(exact + np.int32(1), exact)]
    assert _judged(off, plain=exact, exact=exact, neighbours=neighbours).right


def test_judge_takes_plain_jaxs_errors_from_neighbours_of_a_lucky_result() -> None:
    found, near = PLAIN + np.float32([0, 0, 0, 0.01]), EXACT + 1e-7
    assert not _judged(found, exact=EXACT).right
    unlucky = near.astype(np.float32) - np.float32([0, 0, 0, 0.005])
    assert _judged(found, exact=EXACT, neighbours=[(unlucky, near)]).right
    assert not _judged(found * np.float32(1.1), exact=EXACT, neighbours=[(unlucky, near)]).right


def test_judge_takes_scalars() -> None:
    verdict = verdict_of("y", np.float32(2), np.float32(1), Truth([np.float64(1)]), RTOL, ATOL)
    assert (verdict.right, verdict.first, verdict.elements) == (False, (), 1)


def test_worst_of_takes_the_wrong_output() -> None:
    good, bad = Verdict("a", True, 9, different=9), Verdict("b", False, 9, different=1)
    assert worst_of([good, bad]) is bad


@pytest.mark.parametrize(
    ("found", "plain", "who"),
    [(1.0, 1.0, ""), (1.0, 2.0, "plain JAX"), (2.0, 1.0, "engine"), (2.0, 2.0, "both")],
)
def test_second_opinion_names_who_differs(found: float, plain: float, who: str) -> None:
    sides = ([np.float32([each])] for each in (found, plain, 1.0))
    assert second_opinion(*sides, RTOL, ATOL) == who


def test_a_judgement_by_the_interpreter_overrules_a_truth_that_plain_jax_is_far_from() -> None:
    verdict = _judged(PLAIN + np.float32(0.5), plain=PLAIN + np.float32(500))
    assert verdict.right and not verdict.is_settled
    assert not replace(verdict, opinion="engine").is_accepted
    assert verdict.is_accepted


def test_what_sums_in_another_order_change_needs_no_second_opinion() -> None:
    """(a + 3e38) - 3e38 is 0 or `a`, as sums come: the interpreter adds as plain JAX does."""
    found, orders = PLAIN + np.float32([0, 0, 0, 0.5]), [EXACT + np.array([0, 0, 0, 1e30])]
    verdict = _judged(found, orders=orders)
    assert verdict.right and verdict.is_settled
    elsewhere = _judged(found, orders=[EXACT + np.array([1e30, 1e30, 1e30, 0])])
    assert elsewhere.right and not elsewhere.is_settled
    assert not _judged(found, orders=[EXACT]).right
