"""Products of matrices."""

import re
from typing import Any

import jax.numpy as jnp

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_graph_reader import PREVIEW
from aotc.frontends.onnx.onnx_operator_table import Value, expanded, operator

expanded(
    *("Attention", "CausalConvWithState", "LinearAttention", "RotaryEmbedding", "SwiGLU"),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
)
expanded("FlexAttention", domain=PREVIEW)


operator("MatMul")(lambda call, a, b: jnp.matmul(call.traced(a), call.traced(b)))
operator("Det")(lambda call, x: jnp.linalg.det(call.traced(x)))


@operator("Gemm")
def gemm(call: Call, a: Value, b: Value, c: Value = None) -> Value:
    a, b = call.traced(a), call.traced(b)
    if a.ndim != 2 or b.ndim != 2:
        call.damaged(f"matrices of rank {a.ndim} and {b.ndim}")
    a = a.T if call.attribute("transA") else a
    b = b.T if call.attribute("transB") else b
    result = _times(jnp.matmul(a, b), call.attribute("alpha"))
    if c is None:
        return result
    return (result + _times(call.traced(c), call.attribute("beta"))).astype(a.dtype)


def _times(x: Any, factor: float) -> Any:
    if factor == 1:
        return x
    if jnp.issubdtype(x.dtype, jnp.integer):
        return (x * jnp.float32(factor)).astype(x.dtype)
    return x * jnp.asarray(factor, x.dtype)


@operator("Einsum")
def einsum(call: Call, *values: Value) -> Value:
    equation = call.attribute("equation").replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation):
        call.damaged("an equation with characters other than letters, commas and '...'")
    return jnp.einsum(equation, *map(call.traced, values))
