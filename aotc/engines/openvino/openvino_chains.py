"""Keep sums and products with constants in their order.

OpenVINO moves a factor over a sum, `(x + a) * b` to `x * b + a * b`, and joins constants of two
sums or two products. Where `x` is near `-a`, the digits of the difference are lost. An operator
that returns its operand, and that OpenVINO does not look through, stands between such pairs: a
PRelu whose slope is 1, which becomes part of the loop over the elements. It stands between two
sums over axes, too, which OpenVINO makes one: long sums are cut for the sake of their digits.

Small constants of sums are left to OpenVINO, and so are weights behind a matrix product or a
convolution, whose sums round as much.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from aotc_runtime.engines.openvino.openvino_engine import package

ops = package().opset15
"""Makers of OpenVINO's operators."""

_SHIFTS = ("Add", "Subtract")
_SCALES = ("Multiply", "Divide", "Negative")
_MOVES = ("Broadcast", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze")
_SUM = "ReduceSum"
_PRODUCTS = ("Convolution", "GroupConvolution", "MatMul")

_SHIFT_MAX, _SCALES_RANGE = 4.0, (1e-6, 1e6)
"""Constants with which joint results differ in the last bits alone, of numbers near 1."""

_PRODUCT_SHIFT_MAX = 1e3
"""Largest such constant behind a product or a convolution, whose own sum has that size."""


class _Range(NamedTuple):
    """The smallest and largest absolute value of a constant."""

    low: float
    high: float


_UNKNOWN, _SIGN = _Range(0.0, np.inf), _Range(1.0, 1.0)


class _Linear(NamedTuple):
    """A sum or a product with a constant. is_known: whether the range is the constant's own."""

    is_shift: bool
    constant: _Range
    is_known: bool


def keep_apart(model: Any, fixed: frozenset[str], constant: frozenset[str]) -> None:
    """Put an operator that changes nothing between sums and products with constants.

    Args:
        model: the model; the graphs within it are not looked at.
        fixed: names of the nodes whose results may be known when OpenVINO compiles the model.
        constant: names of those that are known then. They are computed in their order.
    """
    of_products: set[str] = set()
    for node in model.get_ordered_ops():
        name, output = node.get_type_name(), node.output(0) if node.outputs() else None
        linear = _linear(node, fixed)
        sources = {value.get_node().get_name() for value in node.input_values()}
        if name in _PRODUCTS or (
            (linear or name in _MOVES) and sources & of_products and sources <= of_products | fixed
        ):
            of_products.add(node.get_name())
        if output is None or node.get_name() in constant:
            continue
        if output.get_element_type().get_type_name() != "f32":
            continue
        in_product = node.get_name() in of_products
        behind = [
            user
            for user in output.get_target_inputs()
            if any(_differs(node, linear, each, in_product, fixed) for each in _takers(user))
        ]
        if behind:
            same = hide_value(output)
            for user in behind:
                user.replace_source_output(same.output(0))
    model.validate_nodes_and_infer_types()


def hide_value(value: Any) -> Any:
    """Return a node that gives a value of float32, and that OpenVINO does not look through."""
    return ops.prelu(value, np.ones(1, np.float32))


def _takers(user: Any) -> Iterator[Any]:
    """Yield the nodes that take a value at an input, behind those that only move it."""
    node = user.get_node()
    if node.get_type_name() not in _MOVES:
        yield node
        return
    for each in node.output(0).get_target_inputs():
        yield from _takers(each)


def _differs(
    node: Any, linear: _Linear | None, taker: Any, in_product: bool, fixed: frozenset[str]
) -> bool:
    """Return whether OpenVINO's result differs if it joins a node with one that takes it."""
    if node.get_type_name() == taker.get_type_name() == _SUM:
        return True
    other = _linear(taker, fixed)
    if linear is None:
        is_product = node.get_type_name() in _PRODUCTS
        return is_product and other is not None and _is_extreme(other)
    if other is None:
        return taker.get_type_name() in _PRODUCTS and _is_extreme(linear)
    if in_product and not (linear.is_known and other.is_known):
        return False
    most = _PRODUCT_SHIFT_MAX if in_product else _SHIFT_MAX
    if linear.is_shift and other.is_shift:
        return max(linear.constant.high, other.constant.high) > most
    if linear.is_shift:
        if node.get_name() in fixed:
            return True  # infinity times a weight of 0 is no number
        moved = linear.constant.high * max(1.0, other.constant.high)
        return not (moved <= most and _is_within(other.constant))
    if other.is_shift:
        return False
    if in_product:
        return not (_is_within(linear.constant) and _is_within(other.constant))
    # Rounded once instead of twice, a whole number may become the next one.
    return _SIGN not in (linear.constant, other.constant)


def _is_within(constant: _Range) -> bool:
    low, high = _SCALES_RANGE
    return low <= constant.low and constant.high <= high


def _is_extreme(linear: _Linear) -> bool:
    """Return whether a factor may take another one out of range that it is joined with."""
    return not linear.is_shift and linear.is_known and not _is_within(linear.constant)


def _linear(node: Any, fixed: frozenset[str]) -> _Linear | None:
    name = node.get_type_name()
    if name not in (*_SHIFTS, *_SCALES) or not node.get_element_type().is_real():
        return None
    if name == "Negative":
        return _Linear(False, _SIGN, True)
    one, other = node.input_values()
    if other.get_node().get_name() in fixed:
        constant = other.get_node()
    elif one.get_node().get_name() in fixed and name != "Divide":
        constant = one.get_node()
    else:
        return None
    is_known = constant.get_type_name() == "Constant"
    found = _range(constant.get_data()) if is_known else _UNKNOWN
    if name == "Divide":
        with np.errstate(divide="ignore"):
            found = _Range(float(1 / np.float64(found.high)), float(1 / np.float64(found.low)))
    return _Linear(name in _SHIFTS, found, is_known)


def _range(array: Any) -> _Range:
    sizes = np.abs(np.asarray(array, np.float64))
    if not sizes.size or np.isnan(sizes).any():
        return _UNKNOWN
    return _Range(float(sizes.min()), float(sizes.max()))
