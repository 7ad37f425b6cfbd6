"""Operators of torch as functions of jax, by family; those that are never had, with reasons."""

from __future__ import annotations

from aotc.frontends.pytorch.operators import (
    convolution,
    creation,
    elementwise,
    factorizations,
    fourier,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reductions,
    shapes,
)
from aotc.frontends.pytorch.operators.table import Memory, Operator

FAMILIES = {
    "arithmetic, comparisons, activations": elementwise.FAMILY,
    "attention and products": linear.FAMILY,
    "convolution": convolution.FAMILY,
    "creation": creation.FAMILY,
    "Fourier transforms": fourier.FAMILY,
    "linear algebra": factorizations.FAMILY,
    "indexing and scattering": indexing.FAMILY,
    "normalization": normalization.FAMILY,
    "pooling and resizing": pooling.FAMILY,
    "quantization": quantization.FAMILY,
    "quantization of torchao": quantization.TORCHAO,
    "recurrent layers": recurrent.FAMILY,
    "reductions and sorting": reductions.FAMILY,
    "shapes": shapes.FAMILY,
}

OPERATORS: dict[str, Operator] = {
    name: operator for family in FAMILIES.values() for name, operator in family
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

__all__ = ["FAMILIES", "OPERATORS", "REFUSED", "Memory", "Operator"]
