"""Weights in 8 or 4 bits with scales, numbered as qwix 0.1.8 does.

A weight is divided by a scale and rounded half to even. The scale of a block of numbers is their
largest absolute value divided by 127.5 or 7.5, so that the outermost steps are used as the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Literal

import ml_dtypes
import numpy as np

type Array = np.ndarray[Any, Any]
type Bits = Literal["int8", "int4", "bfloat16"]

STEPS: dict[Bits, tuple[float, int, int]] = {"int8": (127.5, -128, 127), "int4": (7.5, -8, 7)}
"""By element type: what the largest absolute value of a block becomes, the least number, and the
largest."""

MIDDLE = 8
"""The offset that makes every 4-bit number storable without a sign."""

SCALE_MIN = float(np.sqrt(np.finfo(np.float32).tiny))
"""A smaller scale is replaced by 1: all numbers of the block become zero."""

NO_ERROR_DB = 999.0
"""The signal-to-noise ratio of a weight without any error."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The quantization of a weight.

    Attributes:
        dtype: The element type. Numbers of bfloat16 are rounded, and have no scales.
        contracted: The axes that products sum over, whose numbers share scales.
        group: How many numbers along the last contracted axis share a scale, and no others; 0 for
            one scale over all contracted axes.
    """

    dtype: Bits
    contracted: tuple[int, ...]
    group: int = 0

    @property
    def label(self) -> str:
        """Return the text that is added to a weight's name: "int8:0", or "int4:0:64"."""
        if not self.is_scaled:
            return self.dtype
        axes = ".".join(map(str, self.contracted))
        return f"{self.dtype}:{axes}" + (f":{self.group}" if self.group else "")

    @property
    def is_scaled(self) -> bool:
        """Return whether numbers are integers, which scales multiply."""
        return self.dtype != "bfloat16"

    @property
    def is_packed(self) -> bool:
        """Return whether two numbers are stored in a byte."""
        return self.dtype == "int4"

    def order(self, rank: int) -> tuple[int, ...]:
        """Return a weight's axes as packed numbers have them: contracted ones come last."""
        return (*(axis for axis in range(rank) if axis not in self.contracted), *self.contracted)

    def stored_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the numbers, or of the bytes with two of them, that hold a weight."""
        if not self.is_packed:
            return tuple(shape)
        *others, last = (shape[axis] for axis in self.order(len(shape)))
        return (*others, -(-last // 2))

    def blocks(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a weight's shape with its last contracted axis split into groups."""
        if not self.group:
            return tuple(shape)
        axis, sizes = self.contracted[-1], list(shape)
        sizes[axis : axis + 1] = [shape[axis] // self.group, self.group]
        return tuple(sizes)

    @property
    def shared(self) -> tuple[int, ...]:
        """Return the axes of `blocks` whose numbers share a scale."""
        return (self.contracted[-1] + 1,) if self.group else self.contracted

    def scale_axes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the axes of `blocks` that the scales have, in their order."""
        return tuple(each for each in range(len(self.blocks(shape))) if each not in self.shared)

    def scale_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the scales of a weight of this shape."""
        blocks = self.blocks(shape)
        return tuple(blocks[each] for each in self.scale_axes(shape))


@dataclass(frozen=True, slots=True)
class QuantizedNumbers:
    """A quantized weight: `values` of its shape, and float32 `scale`s without the shared axes."""

    values: Array
    scale: Array


def quantize(weight: Array, scheme: Scheme) -> QuantizedNumbers:
    """Quantize a weight of finite floating-point numbers."""
    if not scheme.is_scaled:
        return QuantizedNumbers(weight.astype(ml_dtypes.bfloat16), np.ones((), np.float32))
    bound, least, largest = STEPS[scheme.dtype]
    blocks = weight.astype(np.float32).reshape(scheme.blocks(weight.shape))
    scale = np.abs(blocks).max(axis=scheme.shared, keepdims=True) / np.float32(bound)
    scale = np.where(scale < SCALE_MIN, np.float32(1), scale)
    values = np.rint(blocks / scale).clip(least, largest).astype(np.int8)
    if scheme.dtype == "int4":
        values = values.astype(ml_dtypes.int4)
    return QuantizedNumbers(
        values.reshape(weight.shape), scale.reshape(scheme.scale_shape(weight.shape))
    )


def dequantize(numbers: QuantizedNumbers, scheme: Scheme, dtype: np.dtype[Any]) -> Array:
    """Return the weight that a program computes with."""
    if not scheme.is_scaled:
        return numbers.values.astype(dtype)
    shape = numbers.values.shape
    blocks = numbers.values.astype(np.float32).reshape(scheme.blocks(shape))
    restored = blocks * np.expand_dims(numbers.scale, scheme.shared)
    made: Array = restored.reshape(shape).astype(dtype)
    return made


def to_stored(numbers: QuantizedNumbers, scheme: Scheme) -> Array:
    """Return the numbers as a bundle holds them: of 4 bits, two in a byte, the first one low."""
    if not scheme.is_packed:
        return numbers.values
    ordered = numbers.values.astype(np.int8).transpose(scheme.order(numbers.values.ndim)) + MIDDLE
    even, odd = ordered[..., ::2].astype(np.uint8), ordered[..., 1::2].astype(np.uint8)
    made = np.ascontiguousarray(even)
    made[..., : odd.shape[-1]] |= odd << 4
    return made


def from_stored(values: Array, scale: Array, scheme: Scheme) -> QuantizedNumbers:
    """Return a quantized weight from the numbers that a bundle holds, and their scales."""
    if not scheme.is_packed:
        return QuantizedNumbers(values, scale)
    size = scale.shape[scheme.contracted[-1]] * scheme.group
    halves = np.stack([values & 15, values >> 4], -1).astype(np.int8) - np.int8(MIDDLE)
    ordered = halves.reshape(*values.shape[:-1], -1)[..., :size]
    return QuantizedNumbers(ordered.transpose(np.argsort(scheme.order(values.ndim))), scale)


def error_of(weight: Array, restored: Array) -> tuple[float, float]:
    """Return the largest absolute error of a quantized weight, and its signal-to-noise ratio in dB.

    That is the weight's power over that of the error.
    """
    exact = weight.astype(np.float64)
    noise = restored.astype(np.float64) - exact
    power, lost = float(np.square(exact).sum()), float(np.square(noise).sum())
    ratio = NO_ERROR_DB if lost == 0 else 10 * log10(power / lost)
    return float(np.abs(noise).max()), ratio
