"""What operators for callers that look at problems say of matrices that have some."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.frontends.pytorch.operators import torch_factorizations

SINGULAR = [
    ([[2, 1], [1, 3]], 0),
    ([[1, 2], [2, 4]], 2),
    ([[0, 0], [0, 1]], 1),
    ([[1, 0, 0], [0, 0, 0], [0, 0, 0]], 2),
]
"""Matrices, and the first 0 on the diagonal of the upper triangle by LAPACK's getrf, from 1."""

NOT_POSITIVE = [
    ([[2, 1], [1, 3]], 0),
    ([[1, 2], [2, 1]], 2),
    ([[-1, 0], [0, 1]], 1),
    ([[1, 0, 0], [0, -1, 0], [0, 0, -1]], 2),
    ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], 3),
    ([[float("nan"), 0], [0, 1]], 1),
]
"""Matrices, and the first leading minor that is not positive by LAPACK's potrf, from 1."""


@pytest.mark.parametrize(("rows", "info"), SINGULAR)
def test_a_singular_matrix_is_told_by_every_operator_that_factors_it(
    rows: list[list[float]], info: int
) -> None:
    matrix = jnp.asarray([rows, np.eye(len(rows))], jnp.float32)
    right = jnp.ones((2, len(rows), 1), jnp.float32)

    def said(matrix: jax.Array) -> list[jax.Array]:
        return [
            torch_factorizations.inverse_ex(matrix)[1],
            torch_factorizations.lu_factor_ex(matrix)[2],
            torch_factorizations.lu_with_info(matrix)[2],
            torch_factorizations.solve_ex(matrix, right)[1],
            torch_factorizations.solve_with_factors(matrix, right)[3],
        ]

    for each in jax.jit(said)(matrix):
        assert each.dtype == np.int32 and each.tolist() == [info, 0]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", ["float32", "complex64"])
@pytest.mark.parametrize(("rows", "info"), NOT_POSITIVE)
def test_a_matrix_that_is_not_positive_is_told_by_its_first_minor_that_is_not(
    rows: list[list[float]], info: int, kind: str, upper: bool
) -> None:
    matrix = np.array([rows, np.eye(len(rows))], kind)
    # The other triangle is not read.
    matrix = matrix + 9 * (np.tril(np.ones_like(matrix), -1) if upper else np.triu(matrix, 1))
    found = jax.jit(lambda each: torch_factorizations.cholesky_ex(each, upper)[1])(matrix)
    assert found.dtype == np.int32 and found.tolist() == [info, 0]


def test_of_matrices_without_elements_none_has_a_problem() -> None:
    empty = jnp.zeros((3, 0, 0), jnp.float32)
    for info in (
        torch_factorizations.inverse_ex(empty)[1],
        torch_factorizations.cholesky_ex(empty)[1],
    ):
        assert info.tolist() == [0, 0, 0]
