"""Quantized programs drawn by number, composed as those of `generated_programs`.

They have weights of 4 and 8 bits with scales and zero points of a tensor, of its rows, columns or
blocks, activations whose scale a call computes, and chains of quantized and dequantized numbers.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .generated_programs import Draft, Generated, ImpossibleError, Leaf, composed, dtype_of

LIMITS = {"int8": ((-128, 127), (-128, 127), (-127, 127), (-8, 7)), "uint8": ((0, 255), (0, 127))}
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint4": (0, 15)}
ZEROS = {"int8": (0, 0, 3, -7), "uint8": (0, 128, 10), "int4": (0, 0, 5), "uint4": (0, 8, 3)}
SCALES = (0.05, 0.1, 0.007, 1.0, 0.5)


class QuantizedDraft(Draft):
    """A program with a scale and zero points of its own, which most of its steps take."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random, x64=False)
        self.own = self.one(SCALES), {dtype: self.one(zeros) for dtype, zeros in ZEROS.items()}

    def numbers(self, shape: Sequence[int], dtype: str) -> str:
        """Return a weight of small integers of all sizes."""
        low, high = RANGES[dtype]
        return self.kept(self.random.integers(low, high + 1, shape).astype(dtype_of(dtype)))

    def scale(self, shape: Sequence[int]) -> str:
        """Return the scale of a tensor, or scales of its columns, its rows or each number."""
        way = self.number(0, 5) if shape else 0
        if way < 3:
            scale = self.own[0] if self.chance(0.7) else self.one(SCALES)
            return self.one((f"np.float32({scale})", self.kept(np.float32(scale))))
        sizes = {3: shape[-1:], 4: (shape[0], *[1] * (len(shape) - 1)), 5: shape}[way]
        return self.kept(self.random.uniform(0.01, 0.2, sizes).astype("f4"))

    def zero(self, shape: Sequence[int], dtype: str, wide: str) -> str:
        """Return what is added for a zero point of a tensor or its columns; "" if it is 0."""
        if shape and self.chance(0.2):
            return f"{self.numbers(shape[-1:], dtype)}.astype(jnp.{wide})"
        zero = self.own[1][dtype] if self.chance(0.7) else self.one(ZEROS[dtype])
        if not zero and self.chance(0.8):
            return ""
        kept = self.kept(np.asarray(zero, dtype_of(dtype)))
        return self.one((f"{zero}", f"{kept}.astype(jnp.{wide})"))

    def quantized(self, text: str) -> str:
        """Return the text of floats as integers of 8 bits."""
        dtype, by = self.one(("int8", "int8", "uint8")), self.scale(())
        axes = self.one(("", ", -1, keepdims=True"))
        least = f"jnp.max(jnp.abs({text}){axes}) / 126.7 + 1e-9"
        scaled = f"({text})" + self.one((f" / {by}", f" / {by}", f" * {by}", "", f" / ({least})"))
        zero = self.zero((), dtype, "float32") or "0"
        low, high = self.one(LIMITS[dtype])
        rounded = f"{self.one(('jnp.round', 'jnp.round', 'lax.round'))}({scaled})"
        rounded += f" + {zero}" if zero != "0" else ""
        clipped = self.one(
            (
                *(f"jnp.clip({rounded}, {low}, {high})", rounded),
                f"jnp.clip({rounded}, {low}, {high}).astype(jnp.int32)",
                f"jnp.round(jnp.clip({scaled} + {zero}, {low}, {high}))",
                f"jnp.clip(({rounded}).astype(jnp.int32), {low}, {high})",
            )
        )
        return f"({clipped}).astype(jnp.{dtype})"

    def dequantized(self, text: str, shape: Sequence[int], dtype: str) -> str:
        """Return the text of small integers as floats."""
        wide = self.one(("int32", "float32", "float32"))
        zero, scale = self.zero(shape, dtype, wide), self.scale(shape)
        less = f"({text}.astype(jnp.{wide}) - {zero})" if zero else f"{text}.astype(jnp.{wide})"
        less += ".astype(jnp.float32)" if wide == "int32" else ""
        return self.one((f"({less} * {scale})", f"({scale} * {less})"))

    def factor(self, rows: int, columns: int) -> str:
        """Return the text of a dequantized weight, in blocks or transposed in some cases."""
        dtype, size = self.one(("int8", "int8", "uint8", "int4", "uint4")), self.one((0, 0, 4, 16))
        if not size or rows % size:
            shape = self.one(((rows, columns), (rows, columns), (columns, rows)))
            made = self.dequantized(self.numbers(shape, dtype), shape, dtype)
            return made if shape == (rows, columns) else f"{made}.T"
        blocks = (rows // size, self.one((1, size)), columns)
        weight = f"{self.numbers((rows // size, size, columns), dtype)}.astype(jnp.float32)"
        if self.chance(0.3):
            weight = f"({weight} - {self.numbers((blocks[0], 1, columns), dtype)}.astype('f4'))"
        scales = self.kept(self.random.uniform(0.01, 0.1, blocks).astype("f4"))
        return f"({weight} * {scales}).reshape({rows}, {columns})"

    def small(self, *ranks: int) -> Leaf:
        """Return a value of 8-bit integers with one of these numbers of axes."""
        return self.take(lambda v: v.dtype in LIMITS and (not ranks or len(v.shape) in ranks))


def _dequantized(draft: QuantizedDraft, value: Leaf) -> str:
    return draft.dequantized(value.name, value.shape, value.dtype)


def quantize(draft: QuantizedDraft) -> str:
    """Round floats to 8 bits."""
    return draft.quantized(draft.floats().name)


def dequantize(draft: QuantizedDraft) -> str:
    """Make floats of 8 bits."""
    return _dequantized(draft, draft.small())


def weighted(draft: QuantizedDraft) -> str:
    """Multiply floats or dequantized numbers by a quantized weight, as it is or rounded again."""
    x = draft.take(lambda v: v.is_float or (v.dtype in LIMITS and len(v.shape) in (1, 2, 3)))
    left = x.name if x.is_float else _dequantized(draft, x)
    if x.is_float and draft.chance(0.3):
        left = draft.quantized(left)
        left = draft.dequantized(left, x.shape, left[left.rindex("jnp.") + 4 : -1])
    if not x.shape:
        raise ImpossibleError
    columns = draft.one((1, 3, 8, 16))
    text = f"{left} @ {draft.factor(x.shape[-1], columns)}"
    if draft.chance(0.3):
        text = f"{text} + {draft.weight((columns,), 'float32')}"
    if draft.chance(0.2):
        text = f"jnp.maximum({text}, 0)"
    return draft.quantized(f"({text})") if draft.chance(0.4) else text


def unquantized(draft: QuantizedDraft) -> str:
    """Multiply dequantized numbers by a weight of floats."""
    x, columns = draft.small(1, 2), draft.one((1, 3, 8))
    weight = draft.weight((x.shape[-1], columns), "float32")
    bias = f" + {draft.weight((columns,), 'float32')}" if draft.chance(0.5) else ""
    text = f"({_dequantized(draft, x)} @ {weight}{bias})"
    return draft.quantized(text) if draft.chance(0.6) else text


def whole(draft: QuantizedDraft) -> str:
    """Multiply and add integers, and scale the sums."""
    x, columns = draft.small(1, 2), draft.one((1, 3, 8, 16))
    dtype = draft.one((x.dtype, x.dtype, "int8", "uint8"))
    left, right = x.name, draft.numbers((x.shape[-1], columns), dtype)
    zeros = draft.zero((), x.dtype, "int32"), draft.zero((columns,), dtype, "int32")
    if dtype != x.dtype or any(zeros) or draft.chance(0.5):
        left, right = (
            f"({each}.astype(jnp.int32) - {zero or 0})".replace(" - 0)", ")")
            for each, zero in zip((left, right), zeros, strict=True)
        )
    text = f"jnp.matmul({left}, {right}, preferred_element_type=jnp.int32)"
    if draft.chance(0.3):
        text = f"({text} + {draft.weight((columns,), 'int32')})"
    return f"{text}.astype(jnp.float32) * {draft.scale((columns,))}"


def summed(draft: QuantizedDraft) -> str:
    """Add dequantized numbers, and quantize the sums."""
    x = draft.small()
    other = draft.one([v for v in draft.values if v.dtype in LIMITS and v.shape == x.shape])
    text = f"({_dequantized(draft, x)} + {_dequantized(draft, other)})"
    return draft.quantized(text) if draft.chance(0.7) else text


def convolved(draft: QuantizedDraft) -> str:
    """Convolve integers, or dequantized numbers with a weight of floats or of 8 bits."""
    x, out = draft.small(4), draft.one((1, 2, 4))
    kernel = (out, x.shape[1], draft.one((1, 3)), draft.one((1, 2)))
    more = f"(1, {draft.one((1, 2))}), {draft.one(("'SAME'", "'VALID'"))}"
    if draft.chance(0.4):
        zero = draft.zero((), x.dtype, "int32") or 0
        left, right = f"{x.name}.astype(jnp.int32) - {zero}", draft.numbers(kernel, "int8")
        return f"lax.conv_general_dilated({left}, {right}.astype(jnp.int32), {more})"
    right = draft.weight(kernel, "float32")
    if draft.chance(0.6):
        right = draft.dequantized(draft.numbers(kernel, "int8"), kernel, "int8")
    text = f"lax.conv_general_dilated({_dequantized(draft, x)}, {right}, {more})"
    return draft.quantized(text) if draft.chance(0.6) else text


def between(draft: QuantizedDraft) -> str:
    """Compute with floats, or move numbers, between other steps."""
    x = draft.any(1)
    moves = ("jnp.transpose({x})", "{x}.reshape(-1)", "jnp.flip({x}, 0)", "jnp.maximum({x}, 0)")
    floats = ("jax.nn.gelu({x})", "jax.nn.softmax({x})", "{x} - {x}.mean()", "jnp.clip({x}, 0, 6)")
    return draft.one((*moves, *floats) if x.is_float else moves).format(x=x.name)


STEPS: list[tuple[float, Callable[[Any], str]]] = [
    *((3, quantize), (2, dequantize), (4, weighted), (2, unquantized), (2, whole)),
    *((1.5, summed), (1.5, convolved), (1.5, between)),
]
SHAPES = ("{b} {k}", "{b} {k}", "{b} {k}", "2 {b} {k}", "{k}", "1 2 6 5", "2 3 4 5")


def quantized(seed: int, number: int) -> Generated:
    """Return the quantized program of a number."""
    random = np.random.default_rng([seed, number, 5])
    for _ in range(100):
        draft = QuantizedDraft(random)
        b, k = draft.one((1, 2, 3, 5)), draft.one((4, 8, 16, 32, 64, 33))
        shape = tuple(int(each) for each in draft.one(SHAPES).format(b=b, k=k).split())
        for _ in range(draft.one((1, 1, 2))):
            dtype = draft.one(("float32", "float32", "int8", "uint8"))
            draft.inputs.append(Leaf(draft.name("x"), shape, dtype))
        draft.values += draft.inputs
        made = composed(draft, STEPS)
        if made is not None and re.search("int[48]", made.text):
            return made
    raise AssertionError("most attempts give a program")
