"""What OpenVINO does otherwise, in other words: its operators on integers that are computed in
float32, where large numbers are rounded; and sizes that it does not find out by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
_HIGH, _LOW = -(2**16), 2**16 - 1
"""Each half of an integer's bits is a number that float32 holds, and the high one has its sign."""


def state_sizes(openvino: Any, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Say the sizes of what starts at a place that is not known. shapes: of values, by name."""
    ops = openvino.opset15
    for _ in model.get_ordered_ops():
        changed = False
        for node in model.get_ordered_ops():
            kind = node.get_type_name()
            inputs = [each.get_partial_shape() for each in node.input_values()]
            if kind != "Concat" and any(each.is_dynamic for each in inputs):
                continue
            for output in node.outputs():
                known = [shapes[name] for name in sorted(output.get_names()) if name in shapes]
                if output.get_partial_shape().is_static or not known:
                    continue
                if kind == "Slice" and 0 in known[0]:
                    continue  # what lies before or behind a place, which Concat puts together
                consumers = output.get_target_inputs()
                if kind == "Slice":
                    made = _gathered(ops, node, known[0])
                else:
                    made = ops.reshape(output, np.array(known[0], np.int64), False)
                for consumer in consumers:
                    consumer.replace_source_output(made.output(0))
                made.output(0).get_tensor().set_names(output.get_names())
                changed = True
        if not changed:
            return
        model.validate_nodes_and_infer_types()


def _gathered(ops: Any, node: Any, shape: Sequence[int]) -> Any:
    """A slice of steps of one, each axis by its indices."""
    value, starts = node.input_value(0), node.input_value(1)
    for number, axis in enumerate(node.input_value(4).get_node().get_data().tolist()):
        start = ops.gather(starts, np.array([number], np.int64), np.int64(0))
        places = ops.add(start, np.arange(shape[axis], dtype=np.int64))
        value = ops.gather(value, places, np.int64(axis))
    return value


def compare_exactly(openvino: Any, model: Any) -> None:
    """Compare integers of 32 bits by halves; those of 64 bits become some of 32 in OpenVINO."""
    ops, kinds = openvino.opset15, (openvino.Type.i32, openvino.Type.i64)
    for node in model.get_ordered_ops():
        name = node.get_type_name()
        if name not in COMPARISONS or node.get_input_element_type(0) not in kinds:
            continue
        kind = node.get_input_element_type(0)
        one, other = node.input_value(0), node.input_value(1)
        high, low = (
            [
                ops.bitwise_and(each, openvino.op.Constant(kind, openvino.Shape([]), [bits]))
                for each in (one, other)
            ]
            for bits in (_HIGH, _LOW)
        )
        same = ops.equal(*high)
        if name == "Equal":
            made = ops.logical_and(same, ops.equal(*low))
        elif name == "NotEqual":
            made = ops.logical_not(ops.logical_and(same, ops.equal(*low)))
        else:
            strictly = {"L": ops.less, "G": ops.greater}[name[0]]
            of_low = {"LessEqual": ops.less_equal, "GreaterEqual": ops.greater_equal}
            last = of_low.get(name, strictly)(*low)
            made = ops.logical_or(strictly(*high), ops.logical_and(same, last))
        node.output(0).replace(made.output(0))
