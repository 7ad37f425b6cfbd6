"""Normalization, and dropout as it is when nothing is trained."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from aotc.frontends.pytorch.operators.torch_operator_table import Arguments, Family, Memory, first
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


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the mean and the variance over axes, which are kept."""
    middle = jnp.mean(x, axes, keepdims=True)
    return middle, jnp.mean(jnp.square(x - middle), axes, keepdims=True)


def _by_batch(x: Array, weight: Any, bias: Any, eps: float) -> tuple[Array, Array, Array]:
    """Normalized with the input's own statistics: the result, means and 1 / deviations."""
    wide_x = x.astype(wide(x.dtype))
    middle, variance = _moments(wide_x, (0, *range(2, x.ndim)))
    inverse = 1 / jnp.sqrt(variance + eps)
    made = _affine((wide_x - middle) * inverse, _channels(weight, x.ndim), _channels(bias, x.ndim))
    return made.astype(x.dtype), middle.reshape(-1), inverse.reshape(-1)


def _by_statistics(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float
) -> Array:
    """Normalized with statistics of what came before."""
    compute = wide(x.dtype)
    inverse = 1 / jnp.sqrt(variance.astype(compute) + eps)
    factor = inverse if weight is None else weight.astype(compute) * inverse
    shift = -mean.astype(compute) * factor
    shift = shift if bias is None else shift + bias.astype(compute)
    made = x.astype(compute) * _channels(factor, x.ndim) + _channels(shift, x.ndim)
    return made.astype(x.dtype)


@op("_native_batch_norm_legit_functional")
def batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Return the result, means, 1 / deviations, and new running statistics.

    In these, the variance is the unbiased one.
    """
    if running_mean is None or running_var is None:
        return *_by_batch(input, weight, bias, eps), None, None
    if not training:
        made = _by_statistics(input, weight, bias, running_mean, running_var, eps)
        nothing = jnp.zeros((0,), wide(input.dtype))
        return made, nothing, nothing, running_mean, running_var
    made, middle, inverse = _by_batch(input, weight, bias, eps)
    variance = jnp.var(input.astype(wide(input.dtype)), (0, *range(2, input.ndim)), ddof=1)
    new_mean = (1 - momentum) * running_mean + momentum * middle
    new_var = (1 - momentum) * running_var + momentum * variance
    new = new_mean.astype(running_mean.dtype), new_var.astype(running_var.dtype)
    return made, middle, inverse, *new


op("batch_norm", refuse=_statistics)(first(batch_norm))


@op("instance_norm", refuse=_statistics)
def instance_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Array:
    if not use_input_stats:
        return _by_statistics(input, weight, bias, running_mean, running_var, eps)
    x = input.astype(wide(input.dtype))
    middle, variance = _moments(x, tuple(range(2, x.ndim)))
    made = (x - middle) / jnp.sqrt(variance + eps)
    return _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(input.dtype)


@op("native_layer_norm")
def native_layer_norm(
    input: Array,
    normalized_shape: Sequence[Any],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array]:
    x = input.astype(wide(input.dtype))
    middle, variance = _moments(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)))
    inverse = 1 / jnp.sqrt(variance + eps)
    made = _affine((x - middle) * inverse, weight, bias)
    kept = input.dtype if weight is None else weight.dtype
    return made.astype(input.dtype), middle.astype(kept), inverse.astype(kept)


op("layer_norm")(first(native_layer_norm))


@op("_fused_rms_norm")
def fused_rms_norm(
    input: Array,
    normalized_shape: Sequence[Any],
    weight: Array | None = None,
    eps: float | None = None,
) -> tuple[Array, Array]:
    x = input.astype(wide(input.dtype))
    least = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    inverse = 1 / jnp.sqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + least)
    made = _affine(x * inverse, weight, None)
    return made.astype(input.dtype), inverse


op("rms_norm")(first(fused_rms_norm))


@op("native_group_norm")
def native_group_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> tuple[Array, ...]:
    x = input.astype(wide(input.dtype))
    n, c, *rest = x.shape
    grouped = x.reshape(n, group, c // group, *rest)
    middle, variance = _moments(grouped, tuple(range(2, grouped.ndim)))
    deviation = jnp.sqrt(variance + eps)
    made = ((grouped - middle) / deviation).reshape(x.shape)
    made = _affine(made, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(input.dtype)
    kept = input.dtype if weight is None else weight.dtype
    found = (each.reshape(n, group).astype(kept) for each in (middle, 1 / deviation))
    return made, *found


@op("group_norm")
def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    return native_group_norm(input, weight, bias, None, None, None, num_groups, eps)[0]


@op("_weight_norm_interface")
def weight_norm_interface(v: Array, g: Array, dim: int = 0) -> tuple[Array, Array]:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim) if dim != -1 else None
    norm = jnp.sqrt(jnp.sum(jnp.square(v), axes, keepdims=True))
    return v * (g / norm), norm


op("_weight_norm")(first(weight_norm_interface))


def _trained(given: Arguments) -> str | None:
    """In training, dropout draws random numbers, unless it drops nothing."""
    if given.get("train") in (False, None) or given.get("p") == 0:
        return None
    return "dropout in training, random numbers"


@op(
    *("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"),
    memory=Memory.VIEW,
    refuse=_trained,
)
def dropout(input: Array, p: float, train: bool) -> Array:
    return input


@op("native_dropout", refuse=_trained)
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    return input, jnp.ones(input.shape, bool)


op.table(
    {
        "_native_batch_norm_legit.no_stats": lambda input, weight, bias, training, momentum, eps: (
            _by_batch(input, weight, bias, eps)
        ),
        "_native_batch_norm_legit_no_training _batch_norm_no_update": (
            lambda input, weight, bias, running_mean, running_var, momentum, eps: batch_norm(
                input, weight, bias, running_mean, running_var, False, momentum, eps
            )[:3]
        ),
    }
)
