"""The choice is a function of the figures, and prefers the default wherever it may."""

import msgspec
import pytest

from aotc.base.evidence import MIXED, LeftOutEngine, MeasuredEngine
from aotc.commands.tune.tuning_choice import MARGIN, Measured, best_of, choose, summarize, together
from aotc.commands.tune.tuning_evidence import EngineRounds, engine_choice
from aotc.pipeline.build_options import Objective
from aotc.pipeline.build_tuning import notes


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


XLA = EngineRounds([10.0, 11.0, 40.0], [500.0, 510.0, 490.0, 505.0], [9e7, 9e7, 9.1e7, 9e7])
IREE = EngineRounds([8.0, 8.5, 30.0], [800.0, 810.0, 790.0, 805.0], [4e7, 4e7, 4.1e7, 4e7])
ORDER = ("xla", "iree")


@pytest.mark.parametrize(
    ("objective", "engine", "relative"),
    [("latency", "iree", "0.773"), ("start", "xla", "1.597"), ("memory", "iree", "0.444")],
)
def test_objective_decides_the_engine(objective: Objective, engine: str, relative: str) -> None:
    choice = engine_choice(ORDER, {"xla": XLA, "iree": IREE}, {}, objective)
    first, second = choice.engines
    assert isinstance(first, MeasuredEngine) and isinstance(second, MeasuredEngine)
    assert (choice.engine, choice.objective) == (engine, objective)
    assert (first.relative, second.relative) == ("1.000", relative)
    assert (choice.rounds, choice.starts, choice.margin) == (3, 4, "0.03")


def test_every_figure_has_its_spread_whatever_the_objective() -> None:
    choice = engine_choice(ORDER, {"xla": XLA, "iree": IREE}, {}, "memory")
    xla = choice.engines[0]
    assert isinstance(xla, MeasuredEngine)
    latency, start, memory = xla.latency_us, xla.start_ms, xla.memory_bytes
    assert (latency.least, latency.median, latency.most) == ("10.0", "11.0", "40.0")
    assert (start.least, start.median, start.most) == ("490.0", "502.5", "510.0")
    assert (memory.least, memory.median, memory.most) == (90_000_000, 90_000_000, 91_000_000)


def test_the_first_engine_stays_where_another_saves_less_than_the_margin() -> None:
    little = EngineRounds([9.8, 10.8, 39.0], XLA.start, XLA.memory)
    assert engine_choice(ORDER, {"xla": XLA, "iree": little}, {}, "latency").engine == "xla"
    assert engine_choice(ORDER[::-1], {"xla": XLA, "iree": little}, {}, "latency").engine == "iree"


def test_an_engine_that_was_not_measured_is_not_taken_and_says_why() -> None:
    only = engine_choice(ORDER, {"xla": XLA}, {"iree": "crashed"}, "memory")
    assert only.engine == "xla" and only.engines[1] == LeftOutEngine(
        engine="iree", reason="crashed"
    )
    none = engine_choice(ORDER, {}, {"xla": "differs", "iree": "crashed"}, "latency")
    assert (none.engine, none.rounds, none.starts) == ("xla", 0, 0)


def test_the_best_of_an_engine_is_its_default_unless_another_saves_the_margin() -> None:
    names = ("iree-default", "iree-local-task")
    rounds = {"xla-default": [1.0] * 4, "iree-default": [10.0] * 4, "iree-local-task": [9.9] * 4}
    assert best_of(names, rounds) == "iree-default"
    assert best_of(names, {**rounds, "iree-local-task": [9.0] * 4}) == "iree-local-task"
    assert best_of(names, {"iree-local-task": [9.0] * 4}) == "iree-default", "it is compared with"


def test_all_executables_count_alike_however_long_they_take() -> None:
    assert together([[1.0, 2.0, 4.0], [100.0, 200.0]]) == pytest.approx([10.0, 20.0])


def test_notes_name_what_was_chosen_what_was_not_and_where_the_order_decides() -> None:
    choice = engine_choice(ORDER, {"xla": XLA}, {"iree": "crashed"}, "latency")
    engines = {"arm": ["iree"], "box": ["xla"]}
    untuned_targets, listed = {"arm": "it is cpu x86_64"}, {"arm": "iree", "box": "xla"}
    told = [*notes(untuned_targets, {}, listed, {"box": choice}, engines)]
    assert told[0] == (
        "not tuned: this host cannot run target arm: it is cpu x86_64; the order of its engines "
        "decides: iree"
    )
    assert told[1].startswith("box is compiled by xla, chosen for its latency")
    assert told[2] == "iree was left out for box: crashed"
    mixed = msgspec.structs.replace(choice, engine=MIXED)
    first, *_ = notes({}, {}, {}, {"box": mixed}, {"box": ["iree", "xla"]})
    assert first.startswith("box is compiled by iree and xla, each executable by the fastest")
