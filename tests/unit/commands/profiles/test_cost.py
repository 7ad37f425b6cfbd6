"""Cost models: what they are fitted to, and that no larger size is ever cheaper."""

from __future__ import annotations

import numpy as np
import pytest

from aotc.commands.profiles.call_cost import elements, fit, probe_sizes, spread
from tests.unit.commands.profiles.spaces import polynomial, random_traffic


def probes(*most: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    levels = {f"d{index}": list(range(1, limit + 1)) for index, limit in enumerate(most)}
    return np.array([list(sizes.values()) for sizes in probe_sizes(levels)], dtype=np.int64)


@pytest.mark.parametrize(
    ("exponents", "coefficients", "most"),
    [
        ([[0], [1], [3]], [1e4, 30.0, 2.0], (512,)),
        ([[0, 0], [1, 1], [1, 2]], [100.0, 1e5, 350.0], (64, 512)),
        ([[1, 1, 1], [0, 1, 0]], [7.0, 90.0], (8, 300, 300)),
    ],
)
def test_a_polynomial_is_found_again_from_its_probes(
    exponents: list[list[int]], coefficients: list[float], most: tuple[int, ...]
) -> None:
    model = polynomial(exponents, coefficients)
    points, _ = random_traffic(1, 200, *most)
    found = fit(probes(*most), model.costs(probes(*most)), "flops")
    assert found.error < 1e-6
    assert found.costs(points) == pytest.approx(model.costs(points), rel=1e-3)


def test_what_is_no_polynomial_is_fitted_with_the_error_stated() -> None:
    where = probes(512)
    costs = np.sqrt(where[:, 0].astype(np.float64))
    found = fit(where, costs, "flops")
    assert found.error == pytest.approx(np.abs(found.costs(where) / costs - 1).max())
    assert found.error > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_no_model_makes_a_larger_size_cheaper(seed: int) -> None:
    random = np.random.default_rng(seed)
    where = probes(9, 40)
    noisy = random.uniform(1, 10, len(where))
    points, _ = random_traffic(seed, 60, 8, 39)
    for model in (fit(where, noisy, "flops"), elements(2)):
        for step in ([1, 0], [0, 1]):
            assert (model.costs(points + step) >= model.costs(points) * (1 - 1e-12)).all()


def test_a_program_of_one_size_has_one_probe() -> None:
    assert probe_sizes({"batch": [4]}) == [{"batch": 4}]
    assert fit(np.array([[4]]), np.array([2.0]), "flops").costs(np.array([[4]])) == pytest.approx(
        2.0
    )


def test_probes_span_the_sizes_and_are_among_them() -> None:
    sizes = [8, 16, 24, 200, 512]
    assert spread(sizes, 3) in ([8, 24, 512], [8, 200, 512])
    assert spread([1, 2, 3], 5) == [1, 2, 3]
