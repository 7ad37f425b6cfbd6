"""Products of matrices, and attention."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, nn

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, first
from aotc.frontends.pytorch.operators.torch_reductions import safe_softmax
from aotc.frontends.pytorch.torch_dtypes import FLOAT, as_dtype, promote_all, wide

FAMILY = Family()
op = FAMILY


@op("linear")
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    if weight.ndim == 1:
        made = jnp.matmul(input, weight)
    else:
        made = lax.dot_general(input, weight, (((input.ndim - 1,), (1,)), ((), ())))
    return made if bias is None else made + bias


@op("mm", "bmm", "mv", "dot")
def product(
    self: Array, mat2: Any = None, vec: Any = None, tensor: Any = None, other: Any = None
) -> Array:
    right = next(x for x in (mat2, vec, tensor, other) if x is not None)
    return jnp.matmul(self, right)


def _scaled(product: Array, beside: Array, alpha: Any, beta: Any) -> Array:
    """Return beta * beside + alpha * product; with beta = 0, NaN in `beside` is ignored."""
    product = product if alpha == 1 else product * as_dtype(alpha, product.dtype)
    if beta == 0:
        return product
    beside = beside if beta == 1 else beside * as_dtype(beta, beside.dtype)
    return beside + product


@op("einsum", refuse=lambda given: "a path of its own" if given.get("path") else None)
def einsum(equation: str, tensors: Sequence[Array], path: Any = None) -> Array:
    return jnp.einsum(equation, *tensors)


@op("outer", "ger")
def outer(self: Array, vec2: Array) -> Array:
    a, b = promote_all(self, vec2)
    return a[:, None] * b[None, :]


@op("bilinear")
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    made = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else made + bias


@op("cross", "linalg_cross")
def cross(self: Array, other: Array, dim: int | None = -1) -> Array:
    if dim is None:
        dim = next(i for i, size in enumerate(self.shape) if size == 3)
    return jnp.cross(self, other, axis=dim)


@op("kron")
def kron(self: Array, other: Array) -> Array:
    a, b = promote_all(self, other)
    if a.dtype == bool:
        return jnp.kron(a.astype(jnp.uint8), b.astype(jnp.uint8)).astype(bool)
    return jnp.kron(a, b)


@op("_weight_int8pack_mm")
def weight_int8(self: Array, mat2: Array, scales: Array) -> Array:
    made = jnp.matmul(self, mat2.T.astype(self.dtype), preferred_element_type=FLOAT)
    return (made * scales).astype(self.dtype)


@op("cosine_similarity")
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    def unit(x: Array) -> Array:
        length = jnp.sqrt(jnp.sum(x * x, axis=dim, keepdims=True))
        return x / jnp.maximum(length, eps)

    x1, x2 = jnp.broadcast_arrays(*promote_all(x1, x2))
    if x1.ndim == 0:
        return cosine_similarity(x1[None], x2[None], 0, eps)
    return jnp.sum(unit(x1) * unit(x2), axis=dim)


@op("cdist")
def cdist(x1: Array, x2: Array, p: float = 2.0) -> Array:
    apart = jnp.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 2:
        return jnp.sqrt(jnp.sum(apart * apart, -1))
    if p == 1:
        return jnp.sum(apart, -1)
    if p == math.inf:
        return jnp.max(apart, -1)
    if p == 0:
        return jnp.sum(jnp.minimum(jnp.ceil(apart), 1), -1)  # NaN stays
    return jnp.power(jnp.sum(jnp.power(apart, p), -1), 1 / p)


op.table(
    {
        "inner": lambda self, other: jnp.inner(self, other),
        "matmul linalg_matmul": lambda self, other: jnp.matmul(self, other),
        "addmm": lambda self, mat1, mat2, beta=1, alpha=1: _scaled(
            jnp.matmul(mat1, mat2), self, alpha, beta
        ),
        "addmv": lambda self, mat, vec, beta=1, alpha=1: _scaled(
            jnp.matmul(mat, vec), self, alpha, beta
        ),
        "baddbmm": lambda self, batch1, batch2, beta=1, alpha=1: _scaled(
            jnp.matmul(batch1, batch2), self, alpha, beta
        ),
        "addbmm": lambda self, batch1, batch2, beta=1, alpha=1: _scaled(
            jnp.einsum("bij,bjk->ik", batch1, batch2), self, alpha, beta
        ),
        "tensordot": lambda self, other, dims_self, dims_other: jnp.tensordot(
            self, other, (tuple(dims_self), tuple(dims_other))
        ),
        "addr": lambda self, vec1, vec2, beta=1, alpha=1: _scaled(
            outer(vec1, vec2), self, alpha, beta
        ),
        "vdot": lambda self, other: jnp.vdot(self, other),
        "linalg_vecdot": lambda x, y, dim=-1: jnp.sum(x.conj() * y, axis=dim),
        "_int_mm": lambda self, mat2: jnp.matmul(self, mat2, preferred_element_type=jnp.int32),
        "mm.dtype bmm.dtype": lambda self, mat2, out_dtype: jnp.matmul(
            self, mat2, preferred_element_type=out_dtype
        ),
        "_euclidean_dist": lambda x1, x2: cdist(x1, x2),
    }
)


# Attention.


def _dropout(given: Arguments) -> str | None:
    return "dropout in training, random numbers" if given.get("dropout_p") else None


def _attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    is_causal: bool,
    scale: Any,
    grouped: bool,
) -> tuple[Array, Array]:
    """Return scaled dot-product attention, 0 for rows that are masked entirely, and the scores.

    With `grouped`, consecutive heads of queries may share a head of keys.
    """
    if grouped and not (query.shape[-3] == key.shape[-3] == value.shape[-3]):
        heads = query.shape[-3]
        key = jnp.repeat(key, heads // key.shape[-3], axis=-3)
        value = jnp.repeat(value, heads // value.shape[-3], axis=-3)
    width = query.shape[-1]
    factor = 1 / math.sqrt(width) if scale is None else scale
    compute = wide(query.dtype)
    scores = jnp.einsum("...qd,...kd->...qk", query, key, preferred_element_type=compute)
    scores = scores * as_dtype(factor, compute)
    if is_causal:
        rows, columns = scores.shape[-2:]
        allowed = jnp.arange(rows)[:, None] >= jnp.arange(columns)[None, :]
        scores = jnp.where(allowed, scores, -jnp.inf)
    if mask is not None:
        is_choice = mask.dtype == bool
        scores = jnp.where(mask, scores, -jnp.inf) if is_choice else scores + mask.astype(compute)
    weights = safe_softmax(scores, -1).astype(value.dtype)
    made = jnp.einsum("...qk,...kd->...qd", weights, value, preferred_element_type=compute)
    return made, scores


@op("_scaled_dot_product_flash_attention_for_cpu", refuse=_dropout)
def flash_attention(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    grouped = query.shape[-3] != key.shape[-3]
    made, scores = _attention(query, key, value, attn_mask, is_causal, scale, grouped)
    # Of a row that attends to nothing, torch's kernel says 0.
    sums = jnp.where(jnp.max(scores, -1) == -jnp.inf, 0, nn.logsumexp(scores, -1))
    return made.astype(query.dtype), sums


@op("_scaled_dot_product_attention_math", refuse=_dropout)
def math_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Array | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Array]:
    made, scores = _attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    return made.astype(query.dtype), safe_softmax(scores, -1).astype(query.dtype)


op("scaled_dot_product_attention", refuse=_dropout)(first(math_attention))
