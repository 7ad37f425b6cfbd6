"""Products of matrices, and Fourier transforms with what goes with them."""

import re
from typing import Any

import jax.numpy as jnp

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_graph_reader import PREVIEW
from aotc.frontends.onnx.onnx_operator_table import Value, add_expanded, operator
from aotc.frontends.onnx.operators.onnx_layout import axis_of

add_expanded(
    *("Attention", "CausalConvWithState", "LinearAttention", "RotaryEmbedding", "SwiGLU"),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
)
add_expanded("FlexAttention", domain=PREVIEW)

operator("MatMul")(lambda call, a, b: jnp.matmul(call.to_jax(a), call.to_jax(b)))
operator("Det")(lambda call, x: jnp.linalg.det(call.to_jax(x)))


@operator("Gemm")
def gemm(call: Call, a: Value, b: Value, c: Value = None) -> Value:
    a, b = call.to_jax(a), call.to_jax(b)
    if a.ndim != 2 or b.ndim != 2:
        call.refuse(f"matrices of rank {a.ndim} and {b.ndim}")
    a = a.T if call.attribute("transA") else a
    b = b.T if call.attribute("transB") else b
    result = _times(jnp.matmul(a, b), call.attribute("alpha"))
    if c is None:
        return result
    return (result + _times(call.to_jax(c), call.attribute("beta"))).astype(a.dtype)


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
        call.refuse("an equation with characters other than letters, commas and '...'")
    return jnp.einsum(equation, *map(call.to_jax, values))


def _number(call: Call, value: Value, what: str) -> Any:
    return call.ints(value, what)[0]


def _transformed(x: Any, axis: int, length: Any, *, inverse: bool, onesided: bool) -> Any:
    """Return the transform of (…, 1) real or (…, 2) complex numbers along an axis.

    The result is (…, 2), or (…, 1) real numbers for the inverse of one side.
    """
    if inverse and onesided:
        return jnp.fft.irfft(_complex(x), length, axis)[..., None]
    if inverse:
        found = jnp.fft.ifft(_complex(x), length, axis)
    elif onesided:
        found = jnp.fft.rfft(x[..., 0], length, axis)
    else:
        found = jnp.fft.fft(_complex(x), length, axis)
    return jnp.stack([found.real, found.imag], -1)


def _complex(x: Any) -> Any:
    real = x[..., 0]
    return real + (1j * x[..., 1] if x.shape[-1] == 2 else 0j)


@operator("DFT", deciding=(1, 2))
def dft(call: Call, x: Value, length: Value = None, axis: Value = None) -> Value:
    x = call.to_jax(x)
    along = call.attribute("axis", -2) if axis is None else _number(call, axis, "an axis")
    along = axis_of(call, along, x.ndim)
    inverse, onesided = bool(call.attribute("inverse")), bool(call.attribute("onesided"))
    count = None if length is None else _number(call, length, "a length")
    if count is not None:
        call.is_small([*x.shape, count])
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return _transformed(wide, along, count, inverse=inverse, onesided=onesided).astype(x.dtype)


@operator("STFT", deciding=(1, 3))
def stft(call: Call, x: Value, step: Value, window: Value = None, length: Value = None) -> Value:
    x = call.to_jax(x)
    if length is not None:
        size = _number(call, length, "a length")
    elif window is not None:
        size = window.shape[0]
    else:
        call.refuse("neither a window nor a frame_length")
    hop = _number(call, step, "a step")
    if hop < 1 or size < 1 or size > x.shape[1]:
        call.refuse(f"frames of {size} every {hop} of {x.shape[1]}")
    count = (x.shape[1] - size) // hop + 1
    call.is_small([x.shape[0], count, size])
    index = jnp.arange(count)[:, None] * hop + jnp.arange(size)[None, :]
    frames = x[:, index]
    if window is not None:
        frames = frames * call.to_jax(window)[:, None]
    onesided = bool(call.attribute("onesided"))
    return _transformed(frames, 2, None, inverse=False, onesided=onesided).astype(x.dtype)


add_expanded("BlackmanWindow", "HammingWindow", "HannWindow", deciding=(0,))
