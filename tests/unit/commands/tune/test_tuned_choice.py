"""The choice is a function of the figures, and prefers the default wherever it may."""

from __future__ import annotations

import pytest

from aotc.commands.tune.tuning_choice import MARGIN, Measured, choose, summarize


def chosen(**relative: float) -> str:
    candidates = {name: Measured(9, ratio, 9, 9) for name, ratio in relative.items()}
    return choose({"default": Measured(10, 1.0, 0, 9), **candidates})


def test_the_fastest_is_chosen_if_it_saves_the_margin() -> None:
    assert MARGIN == 0.03
    assert chosen(wide=0.97, eigen=0.8, o2=0.9) == "eigen"
    assert chosen(wide=0.97) == "wide"


def test_less_than_the_margin_is_not_worth_an_option() -> None:
    assert chosen(wide=0.971, eigen=1.2) == "default"
    assert chosen() == "default"


def test_what_is_faster_in_some_rounds_only_is_noise() -> None:
    default = Measured(10, 1.0, 0, 8)
    assert choose({"default": default, "eigen": Measured(8, 0.8, 5, 8)}) == "default"
    assert choose({"default": default, "eigen": Measured(8, 0.8, 6, 8)}) == "eigen"


def test_among_those_that_are_as_fast_the_preferred_one_is_chosen() -> None:
    assert chosen(eigen=0.807, wide=0.9, captured=0.8) == "eigen"
    assert chosen(eigen=0.809, wide=0.9, captured=0.8) == "captured"


def test_ratios_are_taken_within_a_round_and_times_over_all() -> None:
    # Something else slowed the second round down; medians of times alone would be misled.
    rounds = {"default": [10.0, 40.0, 12.0], "eigen": [9.0, 36.0, 10.8], "wide": [11.0, 44.0, 3.0]}
    measured = summarize(rounds)
    assert measured["default"] == Measured(12.0, 1.0, 0, 3)
    assert measured["eigen"] == Measured(10.8, pytest.approx(0.9), 3, 3)
    assert measured["wide"] == Measured(11.0, pytest.approx(1.1), 1, 3)
    assert choose(measured) == "eigen"
