"""Operators of torch as functions of jax, by family; those that are never had, with reasons."""

from aotc.frontends.pytorch.operators import (
    torch_creation,
    torch_elementwise,
    torch_factorizations,
    torch_fourier,
    torch_indexing,
    torch_linear,
    torch_normalization,
    torch_quantization,
    torch_recurrent,
    torch_reductions,
    torch_shapes,
    torch_windows,
)
from aotc.frontends.pytorch.operators.torch_operator_table import Memory, Operator

FAMILIES = (
    torch_elementwise.FAMILY,
    torch_linear.FAMILY,
    torch_windows.FAMILY,
    torch_creation.FAMILY,
    torch_fourier.FAMILY,
    torch_factorizations.FAMILY,
    torch_indexing.FAMILY,
    torch_normalization.FAMILY,
    torch_quantization.FAMILY,
    torch_quantization.TORCHAO,
    torch_recurrent.FAMILY,
    torch_reductions.FAMILY,
    torch_shapes.FAMILY,
)

OPERATORS: dict[str, Operator] = {
    name: operator for family in FAMILIES for name, operator in family
}
"""By torch's name: "aten.add.Tensor"."""

RANDOM = "random numbers"
VALUES = "a size that depends on values"

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "bernoulli", "exponential", "multinomial", "normal", "normal_functional", "poisson",
            "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
            "uniform", "geometric", "cauchy", "log_normal", "random",
        ),
        RANDOM,
    ),
    **dict.fromkeys(
        (
            "nonzero", "nonzero_numpy", "masked_select", "unique", "_unique2", "unique_dim",
            "unique_consecutive", "item", "_local_scalar_dense", "argwhere",
        ),
        VALUES,
    ),
    "as_strided_scatter": "a view by strides of memory",
}  # fmt: skip
"""By torch's name without overload."""

__all__ = ["OPERATORS", "REFUSED", "Memory", "Operator"]
