"""Patterns of StableHLO operations that become one operation, and one node of a graph.

jax writes a softmax, a normalization or a GELU as many operations. ONNX Runtime has one for each,
which is faster and, apart from rounding, the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from math import inf, isclose, pi, prod, sqrt
from typing import Any

import numpy as np

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs.graph_builder import moves_nothing
from aotc.engines.onnx_graphs.graph_reductions import body_of
from aotc.engines.onnx_graphs.stablehlo_program import Block, Operation, Value

SOFTMAX, LOG_SOFTMAX = "aotc.softmax", "aotc.log_softmax"
GELU, TANH_GELU = "aotc.gelu", "aotc.tanh_gelu"
SWISH, RELU = "aotc.swish", "aotc.relu"
LAYER_NORM, RMS_NORM = "aotc.layer_norm", "aotc.rms_norm"
ARG_MAX, ARG_MIN = "aotc.arg_max", "aotc.arg_min"

_CLOSE = 1e-5
"""How near a constant has to be, relative to what it stands for."""

_HALVES = ("f16", "bf16")
_FLOATS = (*_HALVES, "f32", "f64")
_MASKED = ("f16", "f32", "f64")
"""Numbers whose products with a condition XLA selects."""

_NORMED = ("f32", "f64")
_NORMED_MAX = 8192
"""Longest axis whose norm the one operator computes: it adds all numbers to one float32."""

_MOVES = (
    "stablehlo.broadcast_in_dim",
    "stablehlo.convert",
    "stablehlo.reshape",
    "stablehlo.transpose",
)
SPREAD = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


def fuse(block: Block, decide: Callable[[bool], bool]) -> None:
    """Put such operations into a block and those within, and drop what nobody uses then.

    decide: of `Names`.
    """
    _select_masked(block)
    _exchange_factors(block, decide)
    same: dict[int, Value] = {}
    for operation in [*block.walk()]:
        operation.operands = [same.get(id(each), each) for each in operation.operands]
        if (known := _same_as(operation)) is not None:
            same[id(operation.result)] = known
            continue
        for match in _MATCHES.get(operation.name, ()):
            if match(operation):
                break
    _replace_returned(block, same)
    _drop_unused(block)


def _select_masked(block: Block) -> None:
    """Select where a program multiplies by a condition: masked elements may be NaN.

    XLA's AlgebraicSimplifier does so.
    """
    made: list[Operation] = []
    for operation in block.operations:
        for inner in operation.blocks:
            _select_masked(inner)
        for value, factor in pairs(operation) if _is_elementwise(operation) else ():
            condition = _condition(factor)
            if condition is not None:
                made += _chosen(operation, value, condition)
                break
        made.append(operation)
    block.operations = made


def _is_elementwise(operation: Operation) -> bool:
    """Return whether numbers are multiplied with those in their place, and at most summed then."""
    if operation.name != "stablehlo.dot_general" or operation.result.element == "f16":
        return operation.name == "stablehlo.multiply"
    numbers, (one, other) = operation.attributes["dot_dimension_numbers"], operation.operands
    axes = [
        (*numbers[f"{side}_batching_dimensions"], *numbers[f"{side}_contracting_dimensions"])
        for side in ("lhs", "rhs")
    ]
    return axes[0] == axes[1] and len(axes[0]) == len(one.shape) == len(other.shape)


def _condition(value: Value) -> Value | None:
    """Return the booleans that a value is as numbers.

    XLA knows constants as numbers, and repeats numbers instead of booleans: then it sees none.
    """
    made_by = maker(value, "stablehlo.convert")
    if made_by is None or value.element not in _MASKED or made_by.operands[0].element != "i1":
        return None
    (condition,) = made_by.operands
    known = maker(condition, "stablehlo.broadcast_in_dim", "stablehlo.constant")
    if known is None or (known.operands and known.operands[0].size == condition.size):
        return condition
    return None


def _chosen(operation: Operation, value: Value, condition: Value) -> list[Operation]:
    """Have a product choose between a value and 0; return the operations that it needs for it."""
    zero, zeros, chosen = (
        Operation(f"stablehlo.{name}", []) for name in ("constant", "broadcast_in_dim", "select")
    )
    zero.attributes = {"value": np.zeros((), DTYPES[value.element])}
    zero.results = [Value((), value.element, zero)]
    zeros.operands, zeros.attributes = [zero.result], {"broadcast_dimensions": ()}
    zeros.results = [Value(value.shape, value.element, zeros)]
    if operation.name == "stablehlo.multiply":
        become(operation, chosen.name, condition, value, zeros.result)
        return [zero, zeros]
    chosen.operands = [condition, value, zeros.result]
    chosen.results = [Value(value.shape, value.element, chosen)]
    operation.operands = [chosen.result if each is value else each for each in operation.operands]
    return [zero, zeros, chosen]


def _exchange_factors(block: Block, decide: Callable[[bool], bool]) -> None:
    """Exchange the factors of a product whose columns a transpose puts before its rows.

    jax writes attention's scores so that the cache's places come first. A softmax over places that
    are not last makes ONNX Runtime transpose them, and masks are repeated one number at a time.
    """
    used = Counter(id(each) for each in block.returned)
    for operation in block.walk():
        used.update(map(id, operation.operands))
        used.update(id(each) for inner in operation.blocks for each in inner.returned)
    for operation in block.walk():
        if operation.name != "stablehlo.transpose":
            continue
        product = maker(operation.operands[0], "stablehlo.dot_general")
        if product is not None and used[id(product.result)] == 1:
            _exchange(product, operation, decide)


def _exchange(product: Operation, turned: Operation, decide: Callable[[bool], bool]) -> None:
    """Exchange the factors of a product if its rows are last then, and no more is transposed."""
    numbers = product.attributes["dot_dimension_numbers"]
    shapes = [each.shape for each in product.operands]
    order = tuple(int(each) for each in turned.attributes["permutation"])
    batch = len(numbers["lhs_batching_dimensions"])
    summed = len(numbers["lhs_contracting_dimensions"])
    rows, columns = (len(shape) - batch - summed for shape in shapes)
    if not order or not columns or not batch <= order[-1] < batch + rows:
        return
    sides = {"lhs": "rhs", "rhs": "lhs"}
    exchanged = {f"{sides[name[:3]]}{name[3:]}": axes for name, axes in numbers.items()}
    # Where each axis of the result was: columns come before rows.
    was = [*range(batch), *range(batch + rows, batch + rows + columns)]
    was += range(batch, batch + rows)
    after = tuple(was.index(axis) for axis in order)
    if decide(_transposes(shapes[::-1], exchanged, after) > _transposes(shapes, numbers, order)):
        return
    result = product.result
    product.operands.reverse()
    product.attributes["dot_dimension_numbers"] = exchanged
    result.shape = tuple(result.shape[axis] for axis in was)
    turned.attributes["permutation"] = after


def _transposes(
    shapes: Sequence[Sequence[int]], numbers: Mapping[str, Sequence[int]], order: Sequence[int]
) -> int:
    """Count the numbers that are transposed before a product, and behind it by an order."""
    moved = 0
    sizes: list[int] = []
    for side, shape in zip(("lhs", "rhs"), shapes, strict=True):
        batch, summed = (
            list(numbers[f"{side}_{what}_dimensions"]) for what in ("batching", "contracting")
        )
        free = [axis for axis in range(len(shape)) if axis not in (*batch, *summed)]
        placed = [*batch, *free, *summed] if side == "lhs" else [*batch, *summed, *free]
        moved += 0 if moves_nothing(shape, placed) else prod(shape)
        sizes += [shape[axis] for axis in (free if sizes else [*batch, *free])]
    return moved + (0 if moves_nothing(sizes, order) else prod(sizes))


def _same_as(operation: Operation) -> Value | None:
    """Return the operand that an operation gives unchanged, whatever the numbers are."""
    name, operands = operation.name, operation.operands
    if name == "stablehlo.select":
        chosen = number_of(operands[0])
        return None if chosen is None else operands[1] if chosen else operands[2]
    if name in ("stablehlo.maximum", "stablehlo.minimum") and operation.result.element in _FLOATS:
        least = float("-inf") if name == "stablehlo.maximum" else float("inf")
        return next((one for one, other in pairs(operation) if number_of(other) == least), None)
    if name in _MOVES and len(operands) == 1:
        (value,) = operands
        if (value.shape, value.element) == (operation.result.shape, operation.result.element):
            order = operation.attributes.get(
                "permutation", operation.attributes.get("broadcast_dimensions", ())
            )
            return value if tuple(order) == tuple(sorted(order)) else None
    return None


def _replace_returned(block: Block, same: dict[int, Value]) -> None:
    block.returned = [same.get(id(each), each) for each in block.returned]
    for operation in block.operations:
        for inner in operation.blocks:
            _replace_returned(inner, same)


def _drop_unused(block: Block) -> None:
    used: set[int] = set()

    def visit(block: Block) -> None:
        used.update(map(id, block.returned))
        for operation in reversed(block.operations):
            if any(id(each) in used for each in operation.results):
                used.update(map(id, operation.operands))
                for inner in operation.blocks:
                    visit(inner)

    def drop(block: Block) -> None:
        block.operations = [
            each for each in block.operations if any(id(result) in used for result in each.results)
        ]
        for operation in block.operations:
            for inner in operation.blocks:
                drop(inner)

    visit(block)
    drop(block)


def become(operation: Operation, name: str, *operands: Value, **attributes: object) -> bool:
    """Change an operation to another one with the same results; return True."""
    operation.name, operation.operands = name, list(operands)
    operation.attributes, operation.blocks = dict(attributes), []
    return True


def maker(value: Value | None, *names: str) -> Operation | None:
    """Return the operation that makes a value, if there is one and it is one of these."""
    made_by = value.made_by if value is not None else None
    return made_by if made_by is not None and made_by.name in names else None


def _operand(value: Value | None, *names: str) -> Value | None:
    """Return the first operand of the operation that makes a value, if it is one of these."""
    made_by = maker(value, *names)
    return made_by.operands[0] if made_by is not None else None


def _one_more_than(value: Value | None, name: str) -> Value | None:
    """Return x of a value that is 1 + f(x), by the name of f."""
    total = maker(value, "stablehlo.add")
    for one, other in pairs(total) if total else ():
        if (found := _operand(other, name)) is not None and _is(one, 1):
            return found
    return None


_COUNTED: Mapping[str, Callable[[Any, Any], Any]] = {
    "stablehlo.add": np.add,
    "stablehlo.maximum": np.maximum,
    "stablehlo.multiply": np.multiply,
    "stablehlo.subtract": np.subtract,
}


def number_of(value: Value) -> float | None:
    """Return the number that a value is everywhere; of scalars also what is computed of constants.

    It is what the value's own type makes of it: a float16 or an integer that was a float32 before
    is the nearest float16 or the integer.
    """
    found = _scalar(value)
    return None if found is None else found.item()


def _scalar(value: Value) -> Any:
    """Return the number of `number_of` in numpy's type for it."""
    while made_by := maker(value, *SPREAD):
        value = made_by.operands[0]
    made_by = value.made_by
    if made_by is None:
        return None
    if made_by.name == "stablehlo.constant":
        array = made_by.attributes["value"]
        return array.reshape(())[()] if array.size == 1 else None
    operands: list[Any] = [None]
    if _is_counted(made_by):
        operands = [_scalar(each) for each in made_by.operands]
    if any(each is None for each in operands):
        return None
    if made_by.name == "stablehlo.convert":
        return _convert(operands[0], DTYPES[value.element])
    one, other = operands
    if made_by.name == "stablehlo.compare":
        return one > other
    with np.errstate(all="ignore"):
        return _COUNTED[made_by.name](one, other)


def _is_counted(operation: Operation) -> bool:
    """Return whether a number is computed of those of the operands."""
    if operation.name == "stablehlo.convert":
        return True
    if operation.name not in (*_COUNTED, "stablehlo.compare") or operation.result.shape:
        return False
    if operation.name == "stablehlo.compare":
        how = operation.attributes
        total = how.get("compare_type") == "TOTALORDER"
        return how["comparison_direction"] == "GT" and not total
    return operation.result.element not in (*_HALVES, "i1")


def _convert(number: Any, dtype: Any) -> Any:
    """Convert as StableHLO does: floats that fit no integer become the nearest, NaN becomes 0."""
    if dtype == np.bool_:
        return np.bool_(number != 0)
    if np.issubdtype(dtype, np.integer) and not np.issubdtype(number.dtype, np.integer):
        wide, limits = float(number), np.iinfo(dtype)
        if np.isnan(wide):
            return dtype.type(0)
        whole = limits.max if wide >= limits.max else limits.min if wide <= limits.min else wide
        return dtype.type(int(whole))
    with np.errstate(all="ignore"):
        return number.astype(dtype)


def _is(value: Value, number: float) -> bool:
    found = number_of(value)
    return found is not None and isclose(found, number, rel_tol=_CLOSE)


def _is_single(number: float) -> bool:
    """Return whether a float32 holds a number, as ONNX's attributes are."""
    with np.errstate(over="ignore"):
        return number == float(np.float32(number))


def pairs(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield the two operands, in both orders."""
    one, other = operation.operands
    yield one, other
    yield other, one


def _match_scale(value: Value | None, factor: float) -> Value | None:
    """Return the value that a number multiplies, or whose divisor is its inverse."""
    made_by = maker(value, "stablehlo.multiply")
    for number, rest in pairs(made_by) if made_by else ():
        if _is(number, factor):
            return rest
    made_by = maker(value, "stablehlo.divide")
    if made_by is not None and _is(made_by.operands[1], 1 / factor):
        return made_by.operands[0]
    return None


def _factors(value: Value) -> list[Value]:
    """Return the factors of a product."""
    made_by = maker(value, "stablehlo.multiply")
    if made_by is None:
        return [value]
    return [factor for each in made_by.operands for factor in _factors(each)]


def _relu(operation: Operation) -> bool:
    for value, zero in pairs(operation):
        if value.element == "f32" and number_of(zero) == 0:
            return become(operation, RELU, value)
    return False


def _swish(operation: Operation) -> bool:
    """Match x * sigmoid(x), for each form of the sigmoid."""
    for value, gate in pairs(operation):
        if value.element == "f32" and _sigmoid_of(gate) is value:
            return become(operation, SWISH, value)
    return False


def _sigmoid_of(gate: Value) -> Value | None:
    if (found := _operand(gate, "stablehlo.logistic")) is not None:
        return found
    made_by = maker(gate, "stablehlo.divide")
    if made_by is None or not _is(made_by.operands[0], 1):
        return None
    return _operand(
        _one_more_than(made_by.operands[1], "stablehlo.exponential"), "stablehlo.negate"
    )


def _gelu(operation: Operation) -> bool:
    """Half of x times 1 + erf(x / sqrt(2)), or times erfc of the opposite, or with a tanh."""
    factors = _factors(operation.result)
    if operation.result.element != "f32":
        return False
    halved = len(factors) == 3 and sum(_is(each, 0.5) for each in factors) == 1
    for value, other in permutations(factors, 2):
        inner = other if halved else _match_scale(other, 0.5) if len(factors) == 2 else None
        for name, argument_of in ((GELU, _error_function_of), (TANH_GELU, _tanh_of)):
            if inner is not None and argument_of(inner) is value:
                return become(operation, name, value)
    return False


def _error_function_of(value: Value) -> Value | None:
    """Return x of 1 + erf(x / sqrt(2)), or of erfc(-x / sqrt(2))."""
    argument = _operand(value, "chlo.erfc")
    if argument is None:
        return _match_scale(_one_more_than(value, "chlo.erf"), sqrt(0.5))
    if (opposite := _operand(argument, "stablehlo.negate")) is not None:
        return _match_scale(opposite, sqrt(0.5))
    opposite = _operand(_match_scale(argument, sqrt(0.5)), "stablehlo.negate")
    return opposite if opposite is not None else _match_scale(argument, -sqrt(0.5))


def _tanh_of(value: Value) -> Value | None:
    """Return x of 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))."""
    inner = _match_scale(_one_more_than(value, "stablehlo.tanh"), sqrt(2 / pi))
    added = maker(inner, "stablehlo.add")
    for argument, cubic in pairs(added) if added else ():
        factors = _factors(cubic)
        cubes = [each for each in factors if each is argument]
        numbers = [each for each in factors if _is(each, 0.044715)]
        if len(cubes) == 3 and len(numbers) == 1 and len(factors) == 4:
            return argument
    return None


def _unbroadcast(value: Value) -> tuple[Value, tuple[int, ...] | None]:
    """Return the origin of a broadcast value, and the axes of the value that it has.

    The axes are None if none is repeated in between.
    """
    axes: tuple[int, ...] | None = None
    while made_by := maker(value, *SPREAD):
        inner = made_by.operands[0]
        if made_by.name == "stablehlo.reshape":
            places = _match_added_axes(inner.shape, value.shape)
            if places is None:
                break
        else:
            places = tuple(int(each) for each in made_by.attributes["broadcast_dimensions"])
        axes = places if axes is None else tuple(axes[place] for place in places)
        value = inner
    return value, axes


def _match_added_axes(inner: Sequence[int], outer: Sequence[int]) -> tuple[int, ...] | None:
    """Return the axes that remain where a reshape only adds axes of 1."""
    places: list[int] = []
    at = 0
    for size in inner:
        while at < len(outer) and outer[at] != size and outer[at] == 1:
            at += 1
        if at == len(outer) or outer[at] != size:
            return None
        places.append(at)
        at += 1
    return tuple(places) if prod(inner) == prod(outer) else None


def _total(value: Value | None, name: str) -> tuple[Value, tuple[int, ...]] | None:
    """Return the array and the axes that a value is the sum or the maximum of."""
    made_by = maker(value, "stablehlo.reduce")
    if made_by is None or len(made_by.results) != 1 or body_of(made_by.blocks[0]) != name:
        return None
    start = {"stablehlo.add": 0.0, "stablehlo.maximum": float("-inf")}[name]
    if number_of(made_by.operands[1]) != start:
        return None
    return made_by.operands[0], tuple(int(each) for each in made_by.attributes["dimensions"])


def _match_sum(value: Value | None, shape: Sequence[int], axis: int) -> Value | None:
    """Return the array whose sum along one axis a value is, for each place of a shape."""
    found = _total(_over(value, shape, axis), "stablehlo.add")
    return found[0] if found is not None and found[1] == (axis,) else None


def _over(value: Value | None, shape: Sequence[int], axis: int) -> Value | None:
    """Return the array with a number for each place of a shape without an axis, if a value is one.

    It may be there as it is, with an axis of 1, or repeated along it.
    """
    if value is None:
        return None
    inner, axes = _unbroadcast(value)
    left = [each for each in range(len(shape)) if each != axis]
    wanted = tuple(shape[each] for each in left)
    if axes is None:
        one = (*shape[:axis], 1, *shape[axis + 1 :])
        return inner if inner.shape in (wanted, one) else None
    if len(value.shape) != len(shape):
        return None
    sizes = [1] * len(shape)
    for place, size in zip(axes, inner.shape, strict=True):
        sizes[place] = size
    in_order = list(axes) == sorted(axes)
    sizes_fit = all(sizes[each] == shape[each] for each in left) and sizes[axis] == 1
    return inner if in_order and sizes_fit else None


def _less_maximum(less: Operation | None, axis: int) -> Value | None:
    """Return the array whose maximum along an axis a difference subtracts.

    Subtracting less might leave infinite exponentials, and more might leave none.
    """
    if less is None:
        return None
    array, most = less.operands
    inner = _over(most, array.shape, axis)
    while inner is not None:
        total = _total(inner, "stablehlo.maximum")
        if total is not None:
            return array if total[0] is array and total[1] == (axis,) else None
        inner = _operand(inner, *SPREAD, "stablehlo.transpose")
    return None


def _softmax(operation: Operation) -> bool:
    power, total = operation.operands
    for axis in range(len(power.shape)):
        if _match_sum(total, power.shape, axis) is power:
            raised = _operand(power, "stablehlo.exponential")
            array = _less_maximum(maker(raised, "stablehlo.subtract"), axis)
            if array is not None and array.element == "f32":
                return become(operation, SOFTMAX, array, axis=axis)
    return False


def _log_softmax(operation: Operation) -> bool:
    """Match x - max, less the logarithm of the sum of its exponentials."""
    value, logarithm = operation.operands
    less = maker(value, "stablehlo.subtract")
    for axis in range(len(value.shape)) if less is not None else ():
        taken = _operand(_over(logarithm, value.shape, axis), "stablehlo.log")
        summed, array = _match_sum(taken, value.shape, axis), _less_maximum(less, axis)
        raised = _operand(summed, "stablehlo.exponential")
        # Of doubles ONNX Runtime passes over what is no number.
        if raised is value and array is not None and array.element == "f32":
            return become(operation, LOG_SOFTMAX, array, axis=axis)
    return False


def _mean(value: Value | None, shape: Sequence[int]) -> Value | None:
    """Return the array of this shape whose mean over the last axis a value is."""
    last = len(shape) - 1
    divided = maker(_over(value, shape, last), "stablehlo.divide", "stablehlo.multiply")
    if divided is None:
        return None
    total, count = divided.operands
    wanted = float(shape[last]) if divided.name == "stablehlo.divide" else 1 / shape[last]
    if divided.name == "stablehlo.multiply" and number_of(count) is None:
        total, count = count, total
    summed = _match_sum(total, shape, last)
    if summed is None or summed.shape != tuple(shape):
        return None
    return summed if _is(count, wanted) else None


def _match_square(value: Value | None) -> Value | None:
    """Return the value that is multiplied by itself, if any."""
    made_by = maker(value, "stablehlo.multiply")
    if made_by is None or made_by.operands[0] is not made_by.operands[1]:
        return None
    return made_by.operands[0]


def _match_centered(value: Value) -> Value | None:
    """Return the array from which its mean over the last axis is taken."""
    made_by = maker(value, "stablehlo.subtract")
    if made_by is None or not value.shape:
        return None
    array, mean = made_by.operands
    return array if _mean(mean, array.shape) is array else None


def _is_variance(value: Value, array: Value) -> bool:
    """Return whether a value is the variance of an array over its last axis."""
    squares = _match_square(_mean(value, array.shape))
    if squares is not None:
        return _match_centered(squares) is array
    inner = _over(value, array.shape, len(array.shape) - 1)
    made_by = maker(inner, RELU, "stablehlo.maximum", "stablehlo.subtract")
    if made_by is None:
        return False
    if made_by.name == RELU:
        return _is_variance(made_by.operands[0], array)
    if made_by.name == "stablehlo.maximum":
        return any(
            number_of(zero) == 0 and _is_variance(rest, array) for rest, zero in pairs(made_by)
        )
    # The mean of the squares less the square of the mean.
    squares, square = made_by.operands
    is_mean = _mean(_match_square(square), array.shape) is array
    return is_mean and _match_square(_mean(squares, array.shape)) is array


def _norm(operation: Operation) -> bool:
    """Match (x - mean) * rsqrt(variance + epsilon), the same without the mean, and with a scale."""
    value = operation.result
    if value.element not in _NORMED or not value.shape:
        return False
    for centred, inverse, name, scales in _norm_forms(operation):
        root = maker(_unbroadcast(inverse)[0], name)
        if root is not None and _replace_norm(operation, centred, inverse, root, scales):
            return True
    return False


def _norm_forms(operation: Operation) -> Iterator[tuple[Value, Value, str, list[Value]]]:
    """Yield the numbers that may be normed, what they are scaled by and its name, and scales."""
    if operation.name == "stablehlo.divide":
        one, other = operation.operands
        yield one, other, "stablehlo.sqrt", []
        return
    for one, other in pairs(operation):
        yield one, other, "stablehlo.rsqrt", []
        # rsqrt(…) * scale, both repeated, as flax has it.
        product = maker(other, "stablehlo.multiply")
        for inverse, scale in pairs(product) if product else ():
            yield one, inverse, "stablehlo.rsqrt", [scale]
        product = maker(one, "stablehlo.multiply")
        for centred, scale in pairs(product) if product else ():
            yield centred, other, "stablehlo.rsqrt", [scale]


def _replace_norm(
    operation: Operation, one: Value, other: Value, root: Operation, scales: list[Value]
) -> bool:
    """Turn an operation into a normalization, if it is one; `other` repeats the root.

    The root is of the variance with an epsilon; each scale has to be a row along the last axis.
    """
    added, last = maker(root.operands[0], "stablehlo.add"), len(one.shape) - 1
    if added is None or _over(other, one.shape, last) is not root.result:
        return False
    rows = [_row(scale) for scale in scales]
    if one.shape[last] > _NORMED_MAX or None in rows:
        return False
    row = [each for each in rows if each is not None]
    for number, variance in pairs(added):
        epsilon = number_of(number)
        if epsilon is None or epsilon < 0 or not _is_single(epsilon / 16):
            continue
        centred = _match_centered(one)
        if centred is not None and _is_variance(variance, centred):
            # Whether the variance is the mean of the squares less the square of the mean.
            squares = _match_square(_mean(variance, centred.shape)) is None
            if squares and centred.element != "f32":
                return False
            how = {"epsilon": epsilon, "squares": squares}
            return become(operation, LAYER_NORM, centred, *row, **how)
        if _match_square(_mean(variance, one.shape)) is one:
            return become(operation, RMS_NORM, one, *row, epsilon=epsilon)
    return False


def _row(value: Value) -> Value | None:
    """Return the list of numbers that is repeated along all axes but the last."""
    inner, axes = _unbroadcast(value)
    last = len(value.shape) - 1
    if len(inner.shape) == 1 and axes == (last,) and inner.shape[0] == value.shape[-1]:
        return inner
    return None


def _norm_with_row(operation: Operation, names: Sequence[str], operands: int) -> bool:
    """Join a normalization of so many operands with the row that scales or shifts it."""
    for normed, other in pairs(operation):
        made_by, row = maker(normed, *names), _row(other)
        if made_by is not None and row is not None and len(made_by.operands) == operands:
            given = (*made_by.operands, row)
            return become(operation, made_by.name, *given, **made_by.attributes)
    return False


_scaled_norm = partial(_norm_with_row, names=(LAYER_NORM, RMS_NORM), operands=1)
_shifted_norm = partial(_norm_with_row, names=(LAYER_NORM,), operands=2)


def _arg_extreme(operation: Operation) -> bool:
    """Match jax's argmax and argmin: a reduction of the numbers with their places."""
    if len(operation.results) != 2 or len(operation.attributes["dimensions"]) != 1:
        return False
    value, places = operation.operands[:2]
    (axis,) = (int(each) for each in operation.attributes["dimensions"])
    counted = maker(_unbroadcast(places)[0], "stablehlo.iota")
    words = _words(operation.blocks[0])
    if (
        counted is None
        or _unbroadcast(places)[1] is not None
        or words not in _ARG
        or value.element not in (*_HALVES, "f32")
    ):
        return False
    if counted.attributes["iota_dimension"] != axis or number_of(operation.operands[3]) != 0:
        return False
    name, start = _ARG[words]
    if number_of(operation.operands[2]) != start or not value.size:
        return False
    return become(operation, name, value, axis=axis)


def _words(block: Block) -> str:
    """Return a function of single numbers as a text."""
    known = {id(each): f"a{number}" for number, each in enumerate(block.arguments)}

    def of(value: Value) -> str:
        if id(value) in known:
            return known[id(value)]
        made_by = value.made_by
        if made_by is None:
            return "?"
        direction = made_by.attributes.get("comparison_direction", "")
        name = made_by.name.removeprefix("stablehlo.")
        return f"{name}{direction}({','.join(map(of, made_by.operands))})"

    return ";".join(map(of, block.returned))


def _arg_words(direction: str) -> str:
    picked = f"or(compare{direction}(a0,a2),compareNE(a0,a0))"
    first = "and(compareEQ(a0,a2),compareLT(a1,a3))"
    return f"select({picked},a0,a2);select(or({picked},{first}),a1,a3)"


_ARG = {_arg_words("GT"): (ARG_MAX, -inf), _arg_words("LT"): (ARG_MIN, inf)}

_MATCHES: dict[str, Sequence[Callable[[Operation], bool]]] = {
    "stablehlo.add": (_shifted_norm,),
    "stablehlo.divide": (_softmax, _norm),
    "stablehlo.maximum": (_relu,),
    "stablehlo.multiply": (_scaled_norm, _norm, _swish, _gelu),
    "stablehlo.reduce": (_arg_extreme,),
    "stablehlo.subtract": (_log_softmax,),
}
