"""Linear algebra: systems of equations, factorizations and what follows from them.

What torch refuses while it runs (a singular matrix, one that is not positive definite) gives
infinities or NaN. XLA calls LAPACK for most of these, which no other engine has.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.lax import linalg
from jax.scipy.linalg import expm
from jax.scipy.linalg import lu_solve as solve_by_factors

from aotc.frontends.pytorch.operators.torch_operator_table import Family, first
from aotc.frontends.pytorch.operators.torch_reductions import vector_norm
from aotc.frontends.pytorch.torch_refusals import Unsupported

FAMILY = Family()
op = FAMILY

MATRIX = (-2, -1)
"""The axes of a matrix in a batch."""


def _transposed(matrices: Array) -> Array:
    return jnp.swapaxes(matrices, *MATRIX)


def _adjoint(matrices: Array) -> Array:
    return _transposed(matrices).conj()


def _batched(one: Array, other: Array) -> tuple[Array, Array]:
    """Return matrices, each batch as large as the other."""
    batch = jnp.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    made = (jnp.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (one, other))
    first, second = made
    return first, second


def _singular(factors: Array) -> Array:
    """Return torch's `info`: the first zero on each upper factor's diagonal, from 1; 0 if none."""
    return _first(jnp.diagonal(factors, axis1=-2, axis2=-1) == 0)


def _first(problems: Array) -> Array:
    """Return the place of the first along the last axis, from 1; 0 without any."""
    if problems.shape[-1] == 0:
        return jnp.zeros(problems.shape[:-1], jnp.int32)
    first = jnp.argmax(problems, -1).astype(jnp.int32) + 1
    return jnp.where(jnp.any(problems, -1), first, jnp.int32(0))


def _not_positive(matrices: Array) -> Array:
    """Return the first leading minor that is not positive, from 1; 0 if all are.

    Only the lower triangle is read, as by LAPACK's potrf, which stops at this pivot.
    """

    def step(place: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, found = state
        column = lax.dynamic_index_in_dim(rest, place, -1, keepdims=False)
        pivot = lax.dynamic_index_in_dim(column, place, -1, keepdims=False).real
        here = (place + 1).astype(jnp.int32)
        scale = jnp.where(pivot > 0, pivot, 1)[..., None, None]
        rest = rest - column[..., :, None] * column[..., None, :].conj() / scale
        return rest, jnp.where((found == 0) & ~(pivot > 0), here, found)

    whole = jnp.tril(matrices) + _adjoint(jnp.tril(matrices, -1))
    none = jnp.zeros(matrices.shape[:-2], jnp.int32)
    if not matrices.shape[-1]:
        return none
    found: Array = lax.fori_loop(0, matrices.shape[-1], step, (whole, none))[1]
    return found


# Systems of equations.


@op("linalg_solve")
def solve(A: Array, B: Array, left: bool = True) -> Array:
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]):
        return solve(A, B[..., None], left)[..., 0]
    if not left:
        return _transposed(solve(_transposed(A), _transposed(B)))
    return jnp.linalg.solve(*_batched(A, B))


@op("linalg_solve_ex")
def solve_ex(A: Array, B: Array, left: bool = True) -> tuple[Array, Array]:
    return solve(A, B, left), _singular(_factors(A)[0])


@op("_linalg_solve_ex")
def solve_with_factors(A: Array, B: Array, left: bool = True) -> tuple[Array, Array, Array, Array]:
    factors, pivots = _factors(A if left else _transposed(A))
    return solve(A, B, left), factors, pivots, _singular(factors)


def _factors(A: Array) -> tuple[Array, Array]:
    """Lower and upper triangle in one matrix, and whose row each was exchanged with, from 1."""
    factors, pivots, _ = linalg.lu(A)
    return factors, pivots + 1


@op("linalg_lu_factor")
def lu_factor(A: Array, pivot: bool = True) -> tuple[Array, Array]:
    if not pivot:
        raise Unsupported("a factorization without exchanges")
    return _factors(A)


@op("linalg_lu_factor_ex")
def lu_factor_ex(A: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    factors, pivots = lu_factor(A, pivot)
    return factors, pivots, _singular(factors)


@op("linalg_lu_solve")
def lu_solve(LU: Array, pivots: Array, B: Array, left: bool = True, adjoint: bool = False) -> Array:
    if not left:
        return _adjoint(lu_solve(LU, pivots, _adjoint(B), adjoint=not adjoint))
    factors, given = _batched(LU, B)
    return solve_by_factors((factors, pivots - 1), given, trans=2 if adjoint else 0)


@op("linalg_inv_ex")
def inverse_ex(A: Array) -> tuple[Array, Array]:
    return (jnp.linalg.inv(A) if A.shape[-1] else A), _singular(_factors(A)[0])


@op("linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor")
def pinv(self: Array, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Array:
    if hermitian:  # only the lower triangle is read
        values, left = eigh(self)
        right = _adjoint(left)
    else:
        left, values, right = linalg.svd(self, full_matrices=False)
    if rtol is None:
        none = jnp.finfo(self.dtype).eps * max(self.shape[-2:])
        rtol = none if atol is None else jnp.where(jnp.asarray(atol) > 0, 0, none)
    relative, absolute = (
        jnp.asarray(0 if each is None else each, values.dtype)[..., None] for each in (rtol, atol)
    )
    sizes = abs(values)
    cut = jnp.maximum(absolute, relative * jnp.max(sizes, -1, keepdims=True, initial=0))
    inverted = jnp.where(sizes > cut, 1 / values, 0)
    return _adjoint(right) * inverted[..., None, :] @ _adjoint(left)


op.table(
    {
        "linalg_solve_triangular": lambda self, B, upper, left=True, unitriangular=False: (
            linalg.triangular_solve(
                *_batched(self, B), left_side=left, lower=not upper, unit_diagonal=unitriangular
            )
        ),
        "linalg_inv": lambda A: jnp.linalg.inv(A),
        "inverse": lambda self: jnp.linalg.inv(self),
        "linalg_pinv pinverse": lambda self, rcond=1e-15, hermitian=False: pinv(
            self, 0.0, rcond, hermitian
        ),
    }
)


# Products.


@op("linalg_matrix_exp", "matrix_exp")
def matrix_exp(self: Array) -> Array:
    if self.dtype.itemsize == 2:
        raise Unsupported("an exponential of matrices in 16 bits")
    return expm(self)


op.table(
    {
        "linalg_matrix_power matrix_power": lambda self, n: jnp.linalg.matrix_power(self, n),
        "linalg_multi_dot chain_matmul": lambda tensors=None, matrices=None: jnp.linalg.multi_dot(
            matrices if tensors is None else tensors
        ),
    }
)


# Factorizations.


@op("linalg_cholesky", "cholesky")
def cholesky(self: Array, upper: bool = False) -> Array:
    """Only the triangle that is asked for is read."""
    made = linalg.cholesky(_adjoint(self) if upper else self, symmetrize_input=False)
    return _adjoint(made) if upper else made


@op("linalg_cholesky_ex")
def cholesky_ex(self: Array, upper: bool = False) -> tuple[Array, Array]:
    return cholesky(self, upper), _not_positive(_adjoint(self) if upper else self)


@op("cholesky_solve")
def cholesky_solve(self: Array, input2: Array, upper: bool = False) -> Array:
    lower, given = _batched(_adjoint(input2) if upper else input2, self)
    half = linalg.triangular_solve(lower, given, left_side=True, lower=True)
    return linalg.triangular_solve(
        lower, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )


@op("linalg_qr")
def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    q, r = linalg.qr(A, full_matrices=mode == "complete")
    return (jnp.zeros(0, A.dtype) if mode == "r" else q), r


@op("linalg_eigh")
def eigh(self: Array, UPLO: str = "L") -> tuple[Array, Array]:
    vectors, values = linalg.eigh(self, lower=UPLO.upper() == "L", symmetrize_input=False)
    return values, vectors


@op("_linalg_eigh")
def eigh_or_values(A: Array, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:
    values, vectors = eigh(A, UPLO)
    return values, vectors if compute_v else jnp.zeros(0, A.dtype)


op("linalg_eigvalsh")(first(eigh))


def _default_driver(driver: Any) -> None:
    if driver is not None:
        raise Unsupported(f"the driver {driver}")


@op("linalg_svd")
def svd(
    A: Array, full_matrices: bool = True, driver: str | None = None
) -> tuple[Array, Array, Array]:
    _default_driver(driver)
    left, values, right = linalg.svd(A, full_matrices=full_matrices)
    return left, values, right


@op("_linalg_svd")
def svd_or_values(
    A: Array, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> tuple[Array, Array, Array]:
    if compute_uv:
        return svd(A, full_matrices, driver)
    nothing = jnp.zeros(0, A.dtype)
    return nothing, svdvals(A, driver), nothing


@op("linalg_svdvals")
def svdvals(A: Array, driver: str | None = None) -> Array:
    _default_driver(driver)
    return linalg.svd(A, compute_uv=False)


op.table(
    {
        "cholesky_inverse": lambda self, upper=False: cholesky_solve(
            jnp.eye(self.shape[-1], dtype=self.dtype), self, upper
        )
    }
)


# Determinants and norms.


@op("logdet")
def logdet(self: Array) -> Array:
    sign, logarithm = jnp.linalg.slogdet(self)
    return jnp.where(sign < 0, jnp.nan, logarithm)


@op("linalg_matrix_norm", "linalg_matrix_norm.str_ord")
def matrix_norm(
    self: Array,
    ord: Any = "fro",
    dim: Sequence[int] = MATRIX,
    keepdim: bool = False,
    dtype: Any = None,
) -> Array:
    given = self if dtype is None else self.astype(dtype)
    first, second = dim
    return jnp.linalg.norm(given, ord, axis=(first, second), keepdims=keepdim)


@op("linalg_norm", "linalg_norm.ord_str")
def norm(
    self: Array, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Array:
    axes = range(self.ndim) if dim is None else dim
    if ord is None or len(axes) == 1:
        return vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype)
    return matrix_norm(self, ord, tuple(axes), keepdim, dtype)


op.table(
    {
        "linalg_det": lambda A: jnp.linalg.det(A),
        "det": lambda self: jnp.linalg.det(self),
        "linalg_slogdet": lambda A: tuple(jnp.linalg.slogdet(A)),
        "slogdet": lambda self: tuple(jnp.linalg.slogdet(self)),
        "_linalg_det": lambda A: (jnp.linalg.det(A), *_factors(A)),
        "_linalg_slogdet": lambda A: (*jnp.linalg.slogdet(A), *_factors(A)),
    }
)
