"""Normalization, and dropout as it is when nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, Memory
from aotc.frontends.pytorch.torch_dtypes import wide

FAMILY = Family()
op = FAMILY


def _statistics(given: Arguments) -> str | None:
    if (
        given.get("training", given.get("use_input_stats"))
        and given.get("running_mean") is not None
    ):
        return "batch normalization in training, which changes its running statistics"
    return None


def _channels(value: Array | None, rank: int) -> Any:
    if value is None or rank < 2:
        return value
    return value.reshape((1, -1) + (1,) * (rank - 2))


def _affine(x: Array, weight: Any, bias: Any) -> Array:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _by_batch(x: Array, weight: Any, bias: Any, eps: float) -> tuple[Array, Array, Array]:
    """Normalized with the input's own statistics: the result, means and 1 / deviations."""
    axes = (0, *range(2, x.ndim))
    wide_x = x.astype(wide(x.dtype))
    middle = jnp.mean(wide_x, axes, keepdims=True)
    inverse = 1 / jnp.sqrt(jnp.mean(jnp.square(wide_x - middle), axes, keepdims=True) + eps)
    made = _affine((wide_x - middle) * inverse, _channels(weight, x.ndim), _channels(bias, x.ndim))
    return made.astype(x.dtype), middle.reshape(-1), inverse.reshape(-1)


@op("batch_norm.default", refuse=_statistics)
def batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Array:
    if training or running_mean is None or running_var is None:
        return _by_batch(input, weight, bias, eps)[0]
    compute = wide(input.dtype)
    inverse = 1 / jnp.sqrt(running_var.astype(compute) + eps)
    factor = inverse if weight is None else weight.astype(compute) * inverse
    shift = -running_mean.astype(compute) * factor
    shift = shift if bias is None else shift + bias.astype(compute)
    made = input.astype(compute) * _channels(factor, input.ndim) + _channels(shift, input.ndim)
    return made.astype(input.dtype)


@op("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def batch_norm_eval(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array, ...]:
    made = batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    nothing = jnp.zeros((0,), wide(input.dtype))
    return (made, nothing, nothing)


@op("_native_batch_norm_legit_functional.default")
def batch_norm_with_statistics(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array]:
    """With new running statistics, in which the variance is the unbiased one."""
    if not training:
        made = batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
        nothing = jnp.zeros((0,), wide(input.dtype))
        return made, nothing, nothing, running_mean, running_var
    made, middle, inverse = _by_batch(input, weight, bias, eps)
    variance = jnp.var(input.astype(wide(input.dtype)), (0, *range(2, input.ndim)), ddof=1)
    new_mean = (1 - momentum) * running_mean + momentum * middle
    new_var = (1 - momentum) * running_var + momentum * variance
    new = new_mean.astype(running_mean.dtype), new_var.astype(running_var.dtype)
    return made, middle, inverse, *new


@op("_native_batch_norm_legit.no_stats")
def batch_norm_no_statistics(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    return _by_batch(input, weight, bias, eps)


@op("instance_norm.default", refuse=_statistics)
def instance_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Array:
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    x = input.astype(wide(input.dtype))
    axes = tuple(range(2, x.ndim))
    middle = jnp.mean(x, axes, keepdims=True)
    made = (x - middle) / jnp.sqrt(jnp.mean(jnp.square(x - middle), axes, keepdims=True) + eps)
    return _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(input.dtype)


def _kept(x: Array, weight: Array | None) -> Any:
    """The dtype of statistics: the input's, unless the weight has more precision."""
    return x.dtype if weight is None else weight.dtype


@op("native_layer_norm.default")
def native_layer_norm(
    input: Array,
    normalized_shape: Sequence[Any],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> tuple[Array, Array, Array]:
    x = input.astype(wide(input.dtype))
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    middle = jnp.mean(x, axes, keepdims=True)
    inverse = 1 / jnp.sqrt(jnp.mean(jnp.square(x - middle), axes, keepdims=True) + eps)
    made = _affine((x - middle) * inverse, weight, bias)
    kept = _kept(input, weight)
    return made.astype(input.dtype), middle.astype(kept), inverse.astype(kept)


@op("layer_norm.default")
def layer_norm(
    input: Array,
    normalized_shape: Sequence[Any],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@op("rms_norm.default")
def rms_norm(
    input: Array,
    normalized_shape: Sequence[Any],
    weight: Array | None = None,
    eps: float | None = None,
) -> Array:
    return fused_rms_norm(input, normalized_shape, weight, eps)[0]


@op("_fused_rms_norm.default")
def fused_rms_norm(
    input: Array, normalized_shape: Sequence[Any], weight: Array | None, eps: float | None
) -> tuple[Array, Array]:
    x = input.astype(wide(input.dtype))
    least = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    inverse = 1 / jnp.sqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + least)
    made = _affine(x * inverse, weight, None)
    return made.astype(input.dtype), inverse


@op("group_norm.default")
def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Array:
    x = input.astype(wide(input.dtype))
    n, c, *rest = x.shape
    grouped = x.reshape(n, num_groups, c // num_groups, *rest)
    axes = tuple(range(2, grouped.ndim))
    middle = jnp.mean(grouped, axes, keepdims=True)
    variance = jnp.mean(jnp.square(grouped - middle), axes, keepdims=True)
    made = ((grouped - middle) / jnp.sqrt(variance + eps)).reshape(x.shape)
    return _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(input.dtype)


@op("native_group_norm.default")
def native_group_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    x = input.astype(wide(input.dtype)).reshape(input.shape[0], group, -1)
    middle = jnp.mean(x, 2)
    inverse = 1 / jnp.sqrt(jnp.mean(jnp.square(x - middle[..., None]), 2) + eps)
    kept = _kept(input, weight)
    made = group_norm(input, group, weight, bias, eps)
    return made, middle.astype(kept), inverse.astype(kept)


@op("_weight_norm.default")
def weight_norm(v: Array, g: Array, dim: int = 0) -> Array:
    return weight_norm_interface(v, g, dim)[0]


@op("_weight_norm_interface.default")
def weight_norm_interface(v: Array, g: Array, dim: int = 0) -> tuple[Array, Array]:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim) if dim != -1 else None
    norm = jnp.sqrt(jnp.sum(jnp.square(v), axes, keepdims=True))
    return v * (g / norm), norm


def _trained(given: Arguments) -> str | None:
    """In training, dropout draws random numbers, unless it drops nothing."""
    if given.get("train") in (False, None) or given.get("p") == 0:
        return None
    return "dropout in training, random numbers"


@op(
    "dropout.default", "feature_dropout.default", "alpha_dropout.default",
    "feature_alpha_dropout.default", memory=Memory.VIEW, refuse=_trained,
)  # fmt: skip
def dropout(input: Array, p: float, train: bool) -> Array:
    return input


@op("native_dropout.default", refuse=_trained)
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    return input, jnp.ones(input.shape, bool)
