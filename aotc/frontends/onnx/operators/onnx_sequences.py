"""Sequences, which are lists while jax traces."""

import jax.numpy as jnp
import numpy as np

from aotc.frontends.onnx.onnx_evaluation import Call
from aotc.frontends.onnx.onnx_operator_table import Value, operator
from aotc.frontends.onnx.onnx_values import is_known
from aotc.frontends.onnx.operators.onnx_layout import axis_of, pieces

operator("SequenceConstruct")(lambda call, *values: list(values))
operator("SequenceEmpty")(lambda call: [])
operator("SequenceLength")(lambda call, sequence: np.asarray(len(sequence), np.int64))


def _sequence_index(call: Call, position: Value, length: int, *, end: bool = False) -> int:
    index = int(call.ints(position, "a position in a sequence")[0])
    if not -length <= index < length + end:
        call.refuse(f"position {index} of a sequence of {length}")
    return index % length if index < 0 else index


@operator("SequenceAt", deciding=(1,))
def sequence_at(call: Call, sequence: Value, position: Value) -> Value:
    return sequence[_sequence_index(call, position, len(sequence))]


@operator("SequenceInsert", deciding=(2,))
def sequence_insert(call: Call, sequence: Value, value: Value, position: Value = None) -> Value:
    length = len(sequence)
    at = length if position is None else _sequence_index(call, position, length, end=True)
    return [*sequence[:at], value, *sequence[at:]]


@operator("ConcatFromSequence")
def concat_from_sequence(call: Call, sequence: Value) -> Value:
    axis, arrays = call.attribute("axis"), [call.to_jax(value) for value in sequence]
    if call.attribute("new_axis"):
        return jnp.stack(arrays, axis)
    return jnp.concatenate(arrays, axis)


@operator("SplitToSequence", deciding=(1,))
def split_to_sequence(call: Call, x: Value, lengths: Value = None) -> Value:
    axis = axis_of(call, call.attribute("axis"), x.ndim)
    total = x.shape[axis]
    if not isinstance(total, int):
        call.lacks("a sequence of symbolic length")
    if lengths is None:
        parts = [1] * total
    else:
        stated = call.ints(lengths, "split")
        each = stated[0]
        if lengths.ndim:
            parts = list(stated)
        elif each < 1:
            call.refuse(f"parts of {each}")
        else:
            parts = [min(each, total - start) for start in range(0, total, each)]
    if sum(parts) != total or min(parts, default=0) < 0:
        call.refuse(f"parts of {parts} of {total} elements")
    call.spend(len(parts))
    found = pieces(x, parts, axis)
    if lengths is None and not call.attribute("keepdims"):
        found = [(np if is_known(value) else jnp).squeeze(value, axis) for value in found]
    return found
