"""Replace operators that OpenVINO computes otherwise than XLA.

They are integers computed in float32, NaN and infinities, absolute values of constants, chains of
sums and products with constants (`chains`), convolutions of one channel, and sizes that OpenVINO
does not find out.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from aotc.engines.openvino.openvino_chains import hide_value, keep_apart, ops
from aotc_runtime.engines.graph_names import weight
from aotc_runtime.engines.openvino.openvino_compilation import BODIES
from aotc_runtime.engines.openvino.openvino_engine import package

type Repairs = Mapping[str, Callable[[Any], Any]]
"""By a type of nodes: returns what takes the place of one; None where it stays."""


def _replace_each(model: Any, repairs: Repairs) -> None:
    """Replace the nodes of a model by what their repairs make of them, in order."""
    for node in model.get_ordered_ops():
        if node.get_type_name() in repairs:
            old, users = node.output(0), node.output(0).get_target_inputs()
            made = repairs[node.get_type_name()](node)
            if made is None:
                continue
            for user in users:
                user.replace_source_output(made.output(0))
            names = old.get_names()
            old.get_tensor().set_names(set())
            made.output(0).get_tensor().set_names(names)
    model.validate_nodes_and_infer_types()


def _element(node: Any) -> str:
    """Return the type of the numbers that a node takes first."""
    return str(node.get_input_element_type(0).get_type_name())


def state_sizes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """State the sizes that OpenVINO does not find out, in the order in which values are computed.

    A node whose input got a size is inferred again before its own results are looked at.

    Args:
        model: the model.
        shapes: shapes of its values, by name.
    """
    stated = set[str]()
    for node in model.get_ordered_ops():
        kind = node.get_type_name()
        if any(value.get_node().get_name() in stated for value in node.input_values()):
            node.validate_and_infer_types()
            stated.add(node.get_name())
        if kind != "Concat" and any(
            value.get_partial_shape().is_dynamic for value in node.input_values()
        ):
            continue
        for output in node.outputs():
            known = [shapes[name] for name in sorted(output.get_names()) if name in shapes]
            if output.get_partial_shape().is_static or not known:
                continue
            if kind == "Slice" and 0 in known[0]:
                continue  # the part before or behind a place, which Concat puts together
            consumers = output.get_target_inputs()
            if kind == "Slice" and _is_moving(node):
                made = _gather_slice(node, known[0])
            else:
                made = ops.reshape(output, np.array(known[0], np.int64), False)
            for consumer in consumers:
                consumer.replace_source_output(made.output(0))
            made.output(0).get_tensor().set_names(output.get_names())
            stated.add(made.get_name())
    model.validate_nodes_and_infer_types()


def _is_moving(node: Any) -> bool:
    """Return whether a slice takes steps of one from a place that is not constant."""
    start, step = (node.input_value(place).get_node() for place in (1, 3))
    if start.get_type_name() == "Constant" or step.get_type_name() != "Constant":
        return False
    return bool((step.get_data() == 1).all())


def _gather_slice(node: Any, shape: Sequence[int]) -> Any:
    """Gather what a slice takes in steps of one, axis by axis."""
    value, starts = node.input_value(0), node.input_value(1)
    for number, axis in enumerate(node.input_value(4).get_node().get_data().tolist()):
        start = ops.gather(starts, np.array([number], np.int64), np.int64(0))
        places = ops.add(start, np.arange(shape[axis], dtype=np.int64))
        value = ops.gather(value, places, np.int64(axis))
    return value


_HIGH, _LOW = -(2**16), 2**16 - 1
"""Each half of an integer's bits is a number that float32 holds, and the high one has its sign."""


def _compare_halves(node: Any) -> Any:
    """Compare integers of 32 bits by halves; those of 64 bits become some of 32 in OpenVINO."""
    if _element(node) not in ("i32", "i64"):
        return None
    name, kind = node.get_type_name(), node.get_input_element_type(0)
    openvino = package()
    high, low = (
        [
            ops.bitwise_and(each, openvino.op.Constant(kind, openvino.Shape([]), [bits]))
            for each in node.input_values()
        ]
        for bits in (_HIGH, _LOW)
    )
    same = ops.equal(*high)
    if name == "Equal":
        return ops.logical_and(same, ops.equal(*low))
    if name == "NotEqual":
        return ops.logical_not(ops.logical_and(same, ops.equal(*low)))
    strictly = {"L": ops.less, "G": ops.greater}[name[0]]
    of_low = {"LessEqual": ops.less_equal, "GreaterEqual": ops.greater_equal}
    last = of_low.get(name, strictly)(*low)
    return ops.logical_or(strictly(*high), ops.logical_and(same, last))


def _choose_integers(node: Any) -> Any:
    """Choose by a sum and a product: OpenVINO may join a choice with a comparison, in float32."""
    kind = node.get_output_element_type(0).get_type_name()
    if kind not in ("i32", "i64"):
        return None
    condition, one, other = node.input_values()
    chosen = ops.multiply(ops.subtract(one, other), ops.convert(condition, kind))
    return ops.add(other, chosen)


_GELU_MAX = 1e30
"""What is above is a result itself; its double may be infinite."""


def _none_kept(node: Any) -> Any:
    """Return a result of float32 that is no number where an operand is none."""
    made = node
    for value in node.input_values() if _element(node) == "f32" else ():
        if not _is_number(value):
            made = ops.select(ops.not_equal(value, value), value, made.output(0))
        if node.get_type_name() not in ("Maximum", "Minimum"):
            break
    return None if made is node else made


def _gelu(node: Any) -> Any:
    value = node.input_value(0)
    return ops.select(ops.less(np.float32(_GELU_MAX), value), value, node.output(0))


def _turn_comparison(node: Any) -> Any:
    """Say a comparison from the other side, where it is false of what is no number."""
    if _element(node) != "f32":
        return None
    one, other = node.input_values()
    return (ops.less if node.get_type_name() == "Greater" else ops.less_equal)(other, one)


def _whole_rows(node: Any) -> Any:
    """Make all of a softmax's row no number where one of its elements is none.

    OpenVINO gives 0 beside it. A product over the row needs no repair: its sum is no number.
    """
    axis = node.get_attributes()["axis"] % len(node.get_output_shape(0))
    if all(_sums_over(user, axis) for user in node.output(0).get_target_inputs()):
        return None
    total = ops.reduce_sum(node.output(0), np.array([axis], np.int64), True)
    return ops.select(ops.not_equal(total, total), total, node.output(0))


def _sums_over(user: Any, axis: int) -> bool:
    """Return whether an input is a factor of a matrix product that is summed over this axis."""
    node, place = user.get_node(), user.get_index()
    if node.get_type_name() != "MatMul":
        return False
    turned = node.get_attributes()["transpose_b" if place else "transpose_a"]
    rank = len(node.get_input_shape(place))
    summed_last = bool(turned) == bool(place)
    return rank > 1 and axis == (rank - 1 if summed_last else rank - 2)


_HALF = 0.5
"""The absolute value of powers that OpenVINO computes as square roots."""


def _power(node: Any) -> Any:
    """Compute powers of one half as powers: roots differ for zeros and for minus infinity."""
    value, power = node.input_values()
    by = power.get_node()
    if by.get_type_name() == "Constant" and not (np.abs(by.get_data()) == _HALF).any():
        return None
    infinity = np.float32(np.inf)
    of_infinity = ops.select(ops.less(np.float32(0), power), infinity, np.float32(0))
    root = ops.select(ops.equal(value, -infinity), of_infinity, ops.absolute(node.output(0)))
    is_root = ops.equal(ops.absolute(power), np.float32(_HALF))
    return ops.select(is_root, root, node.output(0))


_EXTREMES = {"ReduceMax": -1.0, "MaxPool": -1.0, "ReduceMin": 1.0}
"""Operators that begin with the largest or the lowest number, and its sign."""

_BOUNDED = ("Abs", "Clamp", "Exp", "Relu", "Sigmoid", "Tanh")
"""Operators whose results are at least 0, or finite."""


def _extreme(node: Any) -> Any:
    """Return infinity where a maximum or a minimum is taken of nothing else.

    OpenVINO begins with the largest finite number of either sign.
    """
    value, sign = node.input_value(0), _EXTREMES[node.get_type_name()]
    if _element(node) != "f32" or (sign < 0 and _is_bounded(value)):
        return None
    openvino = package()
    end, infinity = np.float32(sign * np.finfo(np.float32).max), np.float32(sign * np.inf)
    at_end = ops.equal(node.output(0), end)
    axes = np.arange(len(node.get_output_shape(0)))
    choice = ops.if_op(ops.reduce_logical_or(at_end, axes, False).output(0))
    taken, found, usual = (
        ops.parameter(each.get_shape(), np.float32)
        for each in (value, node.output(0), node.output(0))
    )
    is_finite = ops.convert(ops.not_equal(taken, infinity), "f32")
    is_empty = ops.equal(_largest(node, is_finite), np.float32(0))
    made = ops.select(ops.logical_and(ops.equal(found, end), is_empty), infinity, found)
    odd, same = ops.result(made), ops.result(usual)
    choice.set_then_body(openvino.Model([odd], [taken, found], "odd"))
    choice.set_else_body(openvino.Model([same], [usual], "usual"))
    choice.set_input(value, taken, None)
    choice.set_input(node.output(0), found, usual)
    choice.set_output(odd, same)
    return choice


def _largest(node: Any, value: Any) -> Any:
    """Return the maxima of another value, over the axes or windows of a node."""
    attributes = node.get_attributes()
    if node.get_type_name() != "MaxPool":
        return ops.reduce_max(value, node.input_value(1), attributes["keep_dims"])
    names = ("strides", "dilations", "pads_begin", "pads_end", "kernel")
    return ops.max_pool(value, *(attributes[name] for name in names)).output(0)


def _is_bounded(value: Any) -> bool:
    """Return whether a value is never minus infinity."""
    node = value.get_node()
    if node.get_type_name() in _MOVED:
        return _is_bounded(node.input_value(0))
    if node.get_type_name() == "Multiply":
        one, other = node.input_values()
        return bool(one == other)
    return node.get_type_name() in _BOUNDED


def _multiply_padding(node: Any, fixed: frozenset[str]) -> Any:
    """Multiply the zeros around a convolution's input with kernels that may be infinite.

    OpenVINO leaves them out. fixed: names of nodes whose results no input changes.
    """
    value, kernel = node.input_values()
    attributes = node.get_attributes()
    low, high = ([0, 0, *attributes[name]] for name in ("pads_begin", "pads_end"))
    if kernel.get_node().get_name() in fixed or not (any(low) or any(high)):
        return None
    is_grouped = node.get_type_name() == "GroupConvolution"
    convolution = ops.group_convolution if is_grouped else ops.convolution
    padded = ops.pad(value, np.array(low), np.array(high), "constant", np.float32(0))
    none = [0] * (len(low) - 2)
    return convolution(
        hide_value(padded.output(0)),
        kernel,
        attributes["strides"],
        none,
        none,
        attributes["dilations"],
    )


def _is_number(value: Any) -> bool:
    """Return whether a value is a constant of numbers."""
    node = value.get_node()
    return node.get_type_name() == "Constant" and not bool(np.isnan(node.get_data()).any())


def fixed_nodes(model: Any, within: bool, but: str = "-") -> frozenset[str]:
    """Return the names of nodes whose results OpenVINO may compute when it compiles.

    They are constants and weights, and nodes that depend on them alone, without types that begin
    with `but`. `within` as for `repair`.
    """
    fixed: set[str] = set()
    for node in model.get_ordered_ops():
        name, sources = node.get_type_name(), [each.get_node() for each in node.input_values()]
        given = name == "Parameter" and not node.get_friendly_name().startswith(weight(0)[0])
        is_given = (given and not within) or name.startswith(but)
        if not is_given and all(each.get_name() in fixed for each in sources):
            fixed.add(node.get_name())
    return frozenset(fixed)


def _absolute(node: Any, fixed: frozenset[str]) -> Any:
    """Hide an absolute value from AbsSinking, a pass of OpenVINO that changes other results.

    In place of an absolute value of constants it puts the constants, negative ones too. An absolute
    value behind a Concat it moves before the Concat, whose other users then get it as well.
    """
    value = node.input_value(0)
    if node.get_name() in fixed or _element(node) != "f32":
        return ops.multiply(value, ops.sign(value))
    node.input(0).replace_source_output(hide_value(value).output(0))
    return None


_REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


def _reduce_axes(node: Any) -> Any:
    """Reduce to sizes of 1, then drop these axes; split reductions of three axes.

    Of three axes, the first or the last is reduced in an array of two.

    OpenVINO takes a reduction, and a reshape that puts sizes of 1 elsewhere, for a reduction that
    keeps its axes. It fuses an operation with a constant row, such as a bias, into the reduction
    before it: of three axes it takes numbers of the row by another axis, and reads beyond its end.
    """
    if node.input_value(1).get_node().get_type_name() != "Constant":
        return None
    value, sizes = node.input_value(0), list(node.get_input_shape(0))
    axes = np.asarray(node.input_value(1).get_node().get_data()).reshape(-1) % len(sizes)
    is_flat = len(sizes) == 3 and axes.size == 1 and axes[0] != 1
    if not is_flat and node.get_attributes()["keep_dims"]:
        return None
    if is_flat:
        split = 2 if axes[0] else 1
        rows = [prod(sizes[:split]), prod(sizes[split:])]
        value = ops.reshape(value, np.array(rows, np.int64), False).output(0)
        axes = np.array([split - 1])
    make = getattr(ops, node.get_type_name().replace("Reduce", "reduce_").lower())
    made = make(value, axes, True)
    return ops.reshape(made, np.array([*node.get_output_shape(0)], np.int64), False)


def _keep_rank(node: Any) -> None:
    """Give scalars the axes of a result of one element.

    OpenVINO joins a product and a sum with constants to one node of the scalar's rank, so that the
    result loses its axes.
    """
    if node.get_output_partial_shape(0).is_dynamic:
        return
    axes = np.array(node.get_output_shape(0), np.int64)
    for place, value in enumerate(node.input_values()):
        is_known = value.get_node().get_type_name() == "Constant" or len(value.get_shape())
        if axes.size and axes.prod() == 1 and not is_known:
            node.input(place).replace_source_output(ops.reshape(value, axes, False).output(0))


def keep_until_called(model: Any, fixed: frozenset[str]) -> None:
    """Compute slices and loops in calls, where OpenVINO may know all that they take.

    It fails to load a model in which it runs one of them beforehand: one behind a choice that
    weights make, or a slice whose size it does not know. Raises UnsupportedError for such a part
    of a model without inputs.

    Args:
        model: the model.
        fixed: names of the nodes whose results no input changes.
    """
    known = set(fixed)
    never = None
    for node in model.get_ordered_ops():
        name, kind = node.get_name(), node.get_type_name()
        sources = [value.get_node().get_name() for value in node.input_values()]
        is_chosen = kind == "Select" and sources[0] in known
        if sources and (
            known.issuperset(sources) or (is_chosen and not known.isdisjoint(sources[1:]))
        ):
            known.add(name)
        is_slice = kind == "Slice" and node.get_output_partial_shape(0).is_dynamic
        is_loop = kind == "Loop"
        if name not in known or not (is_slice or is_loop):
            continue
        never = never or _never(model)
        if never is None:
            raise UnsupportedError(f"{node.get_friendly_name()} of constants alone")
        place, join = (1, ops.logical_or) if is_loop else (2, ops.add)
        of_call = never if is_loop else ops.convert(never, "i64")
        node.input(place).replace_source_output(join(node.input_value(place), of_call).output(0))
        known.discard(name)
    model.validate_nodes_and_infer_types()


def _never(model: Any) -> Any:
    """Return a node that is false in every call; None in a model without inputs."""
    for parameter in model.get_parameters():
        is_weight = parameter.get_friendly_name().startswith(weight(0)[0])
        if not is_weight and 0 not in parameter.get_output_shape(0):
            flat = ops.reshape(parameter, np.array([-1], np.int64), False)
            first = ops.gather(flat, np.int64(0), np.int64(0))
            if first.get_element_type().get_type_name() == "boolean":
                return ops.logical_and(first, ops.logical_not(first))
            return ops.less(first, first)
    return None


def _end_attention(node: Any) -> None:
    """End attention at its last product, where something else is computed with it.

    OpenVINO makes what is behind the product part of it, and crashes where a difference, a quotient
    or a choice is in it whose result has several users.
    """
    for place, value in enumerate(node.input_values()):
        product = value.get_node()
        if product.get_type_name() == "MatMul" and _is_of_softmax(product.input_value(0)):
            node.input(place).replace_source_output(hide_value(value).output(0))


def _is_of_softmax(value: Any) -> bool:
    """Return whether a value is computed of a softmax without another product."""
    seen, waiting = set[str](), [value.get_node()]
    while waiting:
        node = waiting.pop()
        if node.get_type_name() == "Softmax":
            return True
        if node.get_type_name() != "MatMul" and node.get_name() not in seen:
            seen.add(node.get_name())
            waiting += [each.get_node() for each in node.input_values()]
    return False


def _unstride(node: Any) -> Any:
    """Convolve one channel with stride 1 along axes with a single result, and take the first.

    With larger strides OpenVINO 2026.4 reads beyond its input.
    """
    given, spatial = node.get_attributes(), list(node.get_output_shape(0))[2:]
    strides = [
        1 if size == 1 else step for step, size in zip(given["strides"], spatial, strict=True)
    ]
    if node.get_input_shape(1)[1] != 1 or strides == list(given["strides"]):
        return None
    pads = given["pads_begin"], given["pads_end"]
    made = ops.convolution(*node.input_values(), strides, *pads, given["dilations"])
    axes = [axis + 2 for axis, size in enumerate(spatial) if size == 1]
    zeros, ones = np.zeros(len(axes), np.int64), np.ones(len(axes), np.int64)
    return ops.slice(made, zeros, ones, ones, np.array(axes, np.int64))


_MOVED = ("Reshape", "Transpose", "Squeeze", "Unsqueeze")


def _widen_kernel(node: Any) -> None:
    """Hide a quantized kernel of single points from ConvertWeightCompressedConv1x1ToMatmul.

    That pass of OpenVINO 2026.4 fails on scales that are not constants themselves, and multiplies
    matrices whatever the strides and the order of axes are.
    """
    kernel = node.input_value(1)
    is_widened = kernel.get_node().get_type_name() == "Multiply"
    if is_widened and prod(kernel.get_shape()[2:]) == 1:
        node.input(1).replace_source_output(hide_value(kernel).output(0))


def _repeat_scales(node: Any) -> None:
    """Repeat scales and zero points of 8-bit weights for every number.

    OpenVINO takes those that differ along the summed axis as those of the columns, unless each is
    of a block and a column.
    """
    steps: list[Any] = []
    numbers = node.input_value(1).get_node()
    while numbers.get_type_name() in (*_MOVED, "Multiply", "Subtract"):
        steps.append(numbers)
        is_first = numbers.get_input_shape(0) == numbers.get_output_shape(0)
        is_moved = numbers.get_type_name() in _MOVED
        numbers = numbers.input_value(0 if is_first or is_moved else 1).get_node()
    if numbers.get_type_name() != "Convert" or _element(numbers) not in ("i8", "u8"):
        return
    for step in steps:
        if step.get_type_name() not in ("Multiply", "Subtract"):
            continue
        shape = list(step.get_output_shape(0))
        for place, value in enumerate(step.input_values()):
            given = [1] * (len(shape) - len(value.get_shape())) + list(value.get_shape())
            is_of_blocks = len(shape) == 3 and given[1:] == [1, shape[2]]
            if given != shape and prod(given[:-1]) != 1 and not is_of_blocks:
                repeated = ops.broadcast(value, np.array(shape, np.int64))
                step.input(place).replace_source_output(repeated.output(0))


_COMPARISONS = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
_JOINED = ("Add", "Divide", "Maximum", "Minimum", "Multiply", "Power", "Select", "Subtract")

_REPAIRS: Sequence[Repairs] = (
    {"Convolution": _unstride, "Select": _choose_integers},
    dict.fromkeys(_COMPARISONS, _compare_halves),
    dict.fromkeys(_EXTREMES, _extreme),
    {
        **dict.fromkeys(("Clamp", "Exp", "Relu", "Sigmoid", "Maximum", "Minimum"), _none_kept),
        **dict.fromkeys(("Greater", "GreaterEqual"), _turn_comparison),
        "Gelu": _gelu,
    },
    dict.fromkeys(("Softmax", "LogSoftmax"), _whole_rows),
    {"Power": _power},
    dict.fromkeys(_REDUCTIONS, _reduce_axes),
    dict.fromkeys(("Add", "Divide", "Multiply", "Subtract"), _keep_rank),
    {"MatMul": _repeat_scales},
    {"Convolution": _widen_kernel},
    dict.fromkeys(_JOINED, _end_attention),
)
"""Repairs one after the other, each of the whole model."""

_UNFOLDED = "Bitwise"
"""Beginnings of the types of nodes that OpenVINO does not compute before it moves constants."""


def repair(model: Any, within: bool = False) -> None:
    """Apply all of these to a model with known sizes, its branches and loops.

    `within` is whether the model is one of those, whose parameters may be known outside.
    """
    # Graphs within come first: some repairs add one, which needs none.
    for node in model.get_ordered_ops():
        for body in BODIES.get(node.get_type_name(), ()):
            repair(getattr(node, body)(), within=True)
    for repairs in _REPAIRS:
        _replace_each(model, repairs)
    fixed = fixed_nodes(model, within)
    _replace_each(model, {"Abs": lambda node: _absolute(node, fixed)})
    if not within:
        keep_until_called(model, fixed)
    convolutions = ("Convolution", "GroupConvolution")
    _replace_each(model, dict.fromkeys(convolutions, lambda node: _multiply_padding(node, fixed)))
    keep_apart(model, fixed, fixed_nodes(model, within=False, but=_UNFOLDED))
