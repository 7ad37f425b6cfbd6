"""The search for what engines compute otherwise: its programs, and that it notices differences."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from scripts.search import generated_programs
from scripts.search.children import Child, generated_case
from scripts.search.engine_calls import Case, Loaded, Lowered
from scripts.search.findings import compared, finding
from scripts.search.generated_programs import STEPS, generated
from scripts.search.quantized_programs import quantized

SEED = 7


def case(function: Any, *inputs: Any, **more: Sequence[Any]) -> Case:
    """A program of one or more calls."""
    return Case("case", function, False, (), {"ordinary": inputs, **more})


@pytest.mark.parametrize("of_number", [generated, quantized])
def test_a_number_gives_the_same_program_each_time(of_number: Any) -> None:
    first, second = ([of_number(SEED, number) for number in range(40)] for _ in range(2))
    assert [each.text for each in first] == [each.text for each in second]
    for one, other in zip(first, second, strict=True):
        assert [w.tobytes() for w in one.weights] == [w.tobytes() for w in other.weights]
    assert len({each.text for each in first}) == 40


@pytest.mark.parametrize("of_number", [generated, quantized])
def test_programs_are_ones_that_plain_jax_runs(of_number: Any) -> None:
    for number in range(20):
        made = of_number(SEED, number)
        with jax.enable_x64(made.x64):
            inputs = [np.zeros(leaf.shape, leaf.dtype) for leaf in made.inputs]
            assert jax.eval_shape(made.function(), *made.weights, *inputs)


def test_every_kind_of_step_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    left, add = {step.__name__ for _, step in STEPS}, generated_programs._added

    def added(draft: Any, step: Any) -> bool:
        done = add(draft, step)
        left.difference_update({step.__name__} if done else ())
        return done

    monkeypatch.setattr(generated_programs, "_added", added)
    numbers = iter(range(1500))
    while left:
        generated(SEED, next(numbers))


def test_calls_have_the_trials_that_a_build_has() -> None:
    made = generated_case(f"generated.{SEED}.1")
    assert [*made.trials] == [
        "ordinary",
        *("other", "nan", "infinite", "extreme", "offset", "magnitudes"),
    ]
    other = zip(made.trials["ordinary"], made.trials["other"], strict=True)
    assert all((one != another).all() for one, another in other)


class Wrong(Loaded):
    """An executable that adds something."""

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        return [each + 1 for each in super().call(inputs)]

    def by_buffers(self, inputs: Sequence[Any]) -> list[Any]:
        return [each + 1 for each in super().by_buffers(inputs)]


def test_another_result_than_plain_jax_and_the_truth_is_wrong() -> None:
    found = finding("xla", Lowered(case(lambda x: x * 2, np.float32([0, 1]))), Wrong)
    told = "ordinary: result 0: 2 of 2: 1.0 for 0.0 at [0], 3.0 for 2.0 at [1]"
    assert (found.found, found.told) == ("wrong", told)


class Misled(Lowered):
    """A program of which plain JAX gives these results, one after the other."""

    def __init__(self, case: Case, *results: Any) -> None:
        super().__init__(case)
        self._results = iter(results)

    def plain(self, inputs: Sequence[Any]) -> list[Any]:
        return [np.asarray(next(self._results), np.float32)]


def test_another_result_than_plain_jax_is_none_where_the_truth_has_it() -> None:
    lowered = Misled(case(lambda x: x * 2, np.float32([0, 1])), [0, 3])
    assert finding("xla", lowered).found == "rounding"


def test_what_overflows_on_the_way_is_told_apart() -> None:
    large = np.array([3e38, 3e38, -3e38, 1], np.float32)
    summed = case(lambda x: x.sum(), np.ones(4, np.float32), extreme=[large])
    # The second is of the large numbers, the third of ordinary ones in their place.
    assert finding("xla", Misled(summed, 4, np.nan, 2.5)).found == "overflow"


class Changing(Loaded):
    """An executable that remembers its last call, as no executable may."""

    last: Any = 0

    def call(self, inputs: Sequence[Any]) -> list[Any]:
        made, self.last = [each + self.last for each in super().call(inputs)], inputs[0].sum()
        return made


def test_a_result_that_an_earlier_call_changes_is_noticed() -> None:
    ones = np.ones(3, np.float32)
    lowered = Lowered(case(lambda x: x * 1.5, 0 * ones, other=[ones]))
    found = finding("xla", lowered, Changing)
    assert found.found == "state"
    assert found.told.startswith("the first call again: ")


def test_a_child_answers_for_each_engine(tmp_path: Path) -> None:
    child = Child(tmp_path / "said")
    names = [f"generated.{SEED}.{number}" for number in range(3)]
    try:
        found = [child.run(name, "xla") for name in names]
    finally:
        child.end()
    assert [(each.name, each.engine) for each in found] == [(name, "xla") for name in names]
    assert all(each.found in ("same", "near", "small", "rounding") for each in found)


def test_floats_are_compared_by_their_size_and_integers_exactly() -> None:
    one = np.float32([1, 2, np.nan, np.inf])
    assert compared(one, one.copy())[0] == "same"
    assert compared(one * np.float32(1 + 1e-6), one)[0] == "near"
    assert compared(np.float32([1.1, 2, np.nan, np.inf]), one)[0] == "wrong"
    assert compared(np.float32([1, 2, 3, np.inf]), one)[0] == "wrong"
    assert compared(np.int32([1]), np.int32([2]))[0] == "wrong"
