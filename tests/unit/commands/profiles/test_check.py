"""Coverage and padding of given profiles, and who is to blame for them."""

from dataclasses import replace

import numpy as np
import pytest

from aotc.commands.profiles.traffic_check import OFFENDERS, Checked, check_traffic, gate
from aotc.commands.profiles.traffic_log import Traffic
from tests.unit.commands.profiles.spaces import FAIL, space


def traffic(*calls: tuple[tuple[int, int], int]) -> Traffic:
    return Traffic(
        points=np.array([point for point, _ in calls]), counts=np.array([n for _, n in calls])
    )


SPACE = replace(
    space(("batch", 8), ("seq", 100), policies={"batch": FAIL}),
    profiles=({"batch": 1, "seq": 50}, {"batch": 8, "seq": 50}, {"batch": 8, "seq": 80}),
)
CALLS = traffic(
    ((1, 50), 10),
    ((1, 25), 4),
    ((2, 10), 5),
    ((8, 60), 3),
    ((8, 90), 1),
    ((9, 10), 2),
    ((1, 101), 1),
)


@pytest.fixture
def checked() -> Checked:
    return check_traffic(SPACE, CALLS, "cpu")


def test_every_call_counts_also_those_that_the_program_does_not_accept(checked: Checked) -> None:
    assert (checked.requests, checked.covered) == (26, 17)
    assert checked.outside == {"batch above 8": 2, "seq above 100": 1}


def test_calls_that_no_profile_serves_are_listed_most_frequent_first(checked: Checked) -> None:
    assert [(o.sizes, o.count, o.reason) for o in checked.uncovered] == [
        ({"batch": 2, "seq": 10}, 5, "no profile fits"),
        ({"batch": 9, "seq": 10}, 2, "batch above 8"),
        ({"batch": 8, "seq": 90}, 1, "no profile fits"),
        ({"batch": 1, "seq": 101}, 1, "seq above 100"),
    ]


def test_padding_is_told_with_the_profile_that_serves_worst_first(checked: Checked) -> None:
    assert [(o.sizes, [c.sizes for c in o.served_by], o.wasted) for o in checked.padded] == [
        ({"batch": 8, "seq": 60}, [{"batch": 8, "seq": 80}], 480.0),
        ({"batch": 1, "seq": 25}, [{"batch": 1, "seq": 50}], 100.0),
    ]
    real = 10 * 50 + 4 * 25 + 3 * 8 * 60
    assert checked.padding == pytest.approx(580 / real)
    assert checked.padded[1].overhead == pytest.approx(1.0)


def test_the_gate_opens_exactly_at_its_limits(checked: Checked) -> None:
    coverage, padding = checked.coverage, checked.padding
    assert list(gate(checked, coverage, padding)) == []
    codes = [f.code for f in gate(checked, coverage + 1e-9, padding - 1e-9)]
    assert codes == ["AOTC-E971", "AOTC-E972"]
    assert list(gate(checked, None, None)) == []


def test_too_little_coverage_is_told_which_dimension_could_be_padded(checked: Checked) -> None:
    (finding,) = gate(checked, 1.0, None)
    assert 'out_of_profile.batch = "pad"' in finding.hint and "seq" not in finding.hint
    (finding,) = gate(check_traffic(SPACE, traffic(((9, 10), 2)), "cpu"), 1.0, None)
    assert "out_of_profile" not in finding.hint, "no policy serves what is not accepted"


def test_no_more_offenders_are_listed_than_can_be_read() -> None:
    many = traffic(*(((2, size), 1) for size in range(1, 60)))
    assert len(check_traffic(SPACE, many, "cpu").uncovered) == OFFENDERS


def test_the_cheapest_profile_that_fits_serves() -> None:
    calls = traffic(((8, 40), 1), ((8, 70), 1))
    found = check_traffic(SPACE, calls, "cpu")
    assert {o.sizes["seq"]: o.served_by[0].sizes["seq"] for o in found.padded if o.served_by} == {
        40: 50,
        70: 80,
    }
