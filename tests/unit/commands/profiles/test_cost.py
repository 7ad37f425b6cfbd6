"""Cost models, and that no larger size is ever cheaper."""

import numpy as np
import pytest

from aotc.base.errors import UsageError
from aotc.commands.profiles.size_space import elements, parse_cost
from tests.unit.commands.profiles.spaces import polynomial, random_traffic


def test_an_expression_costs_what_it_says() -> None:
    points = np.array([[1, 1], [2, 3], [8, 64]])
    stated = parse_cost("batch*seq*seq+300*batch*seq+7", ("batch", "seq"))
    known = polynomial([[1, 2], [1, 1], [0, 0]], [1.0, 300.0, 7.0])
    assert stated.costs(points).tolist() == known.costs(points).tolist() == [308, 1825, 186375]


def test_elements_are_the_product_of_all_sizes() -> None:
    assert parse_cost("elements", ("batch", "seq")).costs(np.array([[2, 3]])) == [6]


@pytest.mark.parametrize("text", ["", "seq+", "-seq", "seq-batch", "0*seq", "depth", "seq^2"])
def test_what_could_fall_with_a_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cost(text, ("batch", "seq"))
    assert caught.value.code == "AOTC-E001"


@pytest.mark.parametrize("seed", range(5))
def test_no_model_makes_a_larger_size_cheaper(seed: int) -> None:
    points, _ = random_traffic(seed, 60, 8, 39)
    for model in (parse_cost("batch*seq*seq+9*batch", ("batch", "seq")), elements(2)):
        for step in ([1, 0], [0, 1]):
            assert (model.costs(points + step) >= model.costs(points)).all()
