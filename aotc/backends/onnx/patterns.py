"""What many operations of StableHLO are together: operations of our own, each one node of a graph.

jax writes a softmax, a normalization or a GELU as many operations. ONNX Runtime has one for each,
which is faster and, apart from rounding, the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose, pi, prod, sqrt

from aotc.backends.onnx.program import Block, Operation, Value
from aotc.backends.onnx.reductions import body_of

SOFTMAX, GELU, TANH_GELU = "aotc.softmax", "aotc.gelu", "aotc.tanh_gelu"
SWISH, RELU = "aotc.swish", "aotc.relu"
LAYER_NORM, RMS_NORM = "aotc.layer_norm", "aotc.rms_norm"
ARG_MAX, ARG_MIN = "aotc.arg_max", "aotc.arg_min"

_CLOSE = 1e-5
"""How near a constant has to be, relative to what it stands for."""

_NORMED = ("f32", "f64")
_SPREAD = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


def fuse(block: Block) -> None:
    """Put such operations into a block and those within, and drop what nobody uses then."""
    for operation in [*block.walk()]:
        for match in _MATCHES.get(operation.name, ()):
            if match(operation):
                break
    _drop_unused(block)


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


def _become(operation: Operation, name: str, *operands: Value, **attributes: object) -> bool:
    operation.name, operation.operands = name, list(operands)
    operation.attributes, operation.blocks = dict(attributes), []
    return True


def _maker(value: Value, *names: str) -> Operation | None:
    """The operation that makes a value, if it is one of these."""
    made_by = value.made_by
    return made_by if made_by is not None and made_by.name in names else None


def _number(value: Value) -> float | None:
    """The number that a value is everywhere."""
    while made_by := _maker(value, *_SPREAD, "stablehlo.convert"):
        value = made_by.operands[0]
    constant = _maker(value, "stablehlo.constant")
    if constant is None or constant.attributes["value"].size != 1:
        return None
    return float(constant.attributes["value"].reshape(()))


def _is(value: Value, number: float) -> bool:
    found = _number(value)
    return found is not None and isclose(found, number, rel_tol=_CLOSE)


def _pairs(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """The two operands, in both orders."""
    one, other = operation.operands
    yield one, other
    yield other, one


def _scaled(value: Value, factor: float) -> Value | None:
    """What is multiplied by a number, or divided by its inverse."""
    made_by = _maker(value, "stablehlo.multiply")
    if made_by is not None:
        for number, rest in _pairs(made_by):
            if _is(number, factor):
                return rest
    made_by = _maker(value, "stablehlo.divide")
    if made_by is not None and _is(made_by.operands[1], 1 / factor):
        return made_by.operands[0]
    return None


def _factors(value: Value) -> list[Value]:
    """What a product is made of."""
    made_by = _maker(value, "stablehlo.multiply")
    if made_by is None:
        return [value]
    return [factor for each in made_by.operands for factor in _factors(each)]


def _without(values: Sequence[Value], *taken: Value) -> list[Value]:
    rest = list(values)
    for each in taken:
        rest.remove(each)
    return rest


def _relu(operation: Operation) -> bool:
    for value, zero in _pairs(operation):
        if value.element == "f32" and _number(zero) == 0:
            return _become(operation, RELU, value)
    return False


def _swish(operation: Operation) -> bool:
    """x * sigmoid(x), whichever way the sigmoid is written."""
    for value, gate in _pairs(operation):
        if value.element == "f32" and _sigmoid_of(gate) is value:
            return _become(operation, SWISH, value)
    return False


def _sigmoid_of(gate: Value) -> Value | None:
    made_by = _maker(gate, "stablehlo.logistic")
    if made_by is not None:
        return made_by.operands[0]
    made_by = _maker(gate, "stablehlo.divide")
    if made_by is None or not _is(made_by.operands[0], 1):
        return None
    total = _maker(made_by.operands[1], "stablehlo.add")
    for one, power in _pairs(total) if total else ():
        raised = _maker(power, "stablehlo.exponential")
        opposite = _maker(raised.operands[0], "stablehlo.negate") if raised else None
        if opposite is not None and _is(one, 1):
            return opposite.operands[0]
    return None


def _gelu(operation: Operation) -> bool:
    """Half of x times 1 + erf(x / sqrt(2)), or times erfc of the opposite, or with a tanh."""
    factors = _factors(operation.result)
    if operation.result.element != "f32":
        return False
    halves = [each for each in factors if _is(each, 0.5)]
    for value in factors:
        for other in factors:
            if other is value:
                continue
            if len(halves) == 1 and len(factors) == 3:
                if _error_function_of(other) is value:
                    return _become(operation, GELU, value)
                if _tanh_of(other) is value:
                    return _become(operation, TANH_GELU, value)
            divided = _scaled(other, 0.5)
            if len(factors) == 2 and divided is not None:
                if _error_function_of(divided) is value:
                    return _become(operation, GELU, value)
                if _tanh_of(divided) is value:
                    return _become(operation, TANH_GELU, value)
    return False


def _error_function_of(value: Value) -> Value | None:
    """x of 1 + erf(x / sqrt(2)), or of erfc(-x / sqrt(2))."""
    rest = _maker(value, "chlo.erfc")
    if rest is not None:
        argument = rest.operands[0]
        minus = _maker(argument, "stablehlo.negate")
        if minus is not None:
            return _scaled(minus.operands[0], sqrt(0.5))
        inner = _scaled(argument, sqrt(0.5))
        minus = _maker(inner, "stablehlo.negate") if inner is not None else None
        return minus.operands[0] if minus else _scaled(argument, -sqrt(0.5))
    total = _maker(value, "stablehlo.add")
    for one, error in _pairs(total) if total else ():
        found = _maker(error, "chlo.erf")
        if found is not None and _is(one, 1):
            return _scaled(found.operands[0], sqrt(0.5))
    return None


def _tanh_of(value: Value) -> Value | None:
    """x of 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))."""
    total = _maker(value, "stablehlo.add")
    for one, bent in _pairs(total) if total else ():
        found = _maker(bent, "stablehlo.tanh")
        inner = _scaled(found.operands[0], sqrt(2 / pi)) if found and _is(one, 1) else None
        added = _maker(inner, "stablehlo.add") if inner is not None else None
        for argument, cubic in _pairs(added) if added else ():
            factors = _factors(cubic)
            cubes = [each for each in factors if each is argument]
            numbers = [each for each in factors if _is(each, 0.044715)]
            if len(cubes) == 3 and len(numbers) == 1 and len(factors) == 4:
                return argument
    return None


def _kept(value: Value) -> tuple[Value, tuple[int, ...] | None]:
    """What is broadcast to a value, and the axes of the value that it has; None if no axis is
    repeated in between.
    """
    axes: tuple[int, ...] | None = None
    while made_by := _maker(value, *_SPREAD):
        inner = made_by.operands[0]
        if made_by.name == "stablehlo.reshape":
            places = _placed(inner.shape, value.shape)
            if places is None:
                break
        else:
            places = tuple(int(each) for each in made_by.attributes["broadcast_dimensions"])
        axes = places if axes is None else tuple(axes[place] for place in places)
        value = inner
    return value, axes


def _placed(inner: Sequence[int], outer: Sequence[int]) -> tuple[int, ...] | None:
    """Which axes remain where a reshape only adds axes of 1."""
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


def _reduced(value: Value, rank: int, name: str) -> tuple[Value, tuple[int, ...]] | None:
    """The array and the axes of a reduction whose result is repeated along them again."""
    inner, axes = _kept(value)
    limits = _maker(inner, "stablehlo.maximum")
    if limits is not None and name == "stablehlo.maximum":
        # jax takes the maximum with -inf once more.
        for start, rest in _pairs(limits):
            if _number(start) == float("-inf"):
                within, more = _kept(rest)
                if more is not None:
                    axes = tuple(axes[each] for each in more) if axes is not None else more
                inner = within
    made_by = _maker(inner, "stablehlo.reduce")
    if made_by is None or len(made_by.results) != 1 or body_of(made_by.blocks[0]) != name:
        return None
    array = made_by.operands[0]
    over = tuple(int(each) for each in made_by.attributes["dimensions"])
    start = {"stablehlo.add": 0.0, "stablehlo.maximum": float("-inf")}[name]
    left = tuple(axis for axis in range(len(array.shape)) if axis not in over)
    if _number(made_by.operands[1]) != start or len(array.shape) != rank:
        return None
    # Axes of 1 may lie anywhere; what is repeated has to be what was reduced.
    sizes = inner.shape
    if axes is None:
        axes = tuple(range(len(sizes)))
    ok = all(
        place == axis or size == 1 for place, axis, size in zip(axes, left, sizes, strict=True)
    )
    return (array, over) if ok else None


def _softmax(operation: Operation) -> bool:
    power, total = operation.operands
    raised = _maker(power, "stablehlo.exponential")
    rank = len(power.shape)
    summed = _reduced(total, rank, "stablehlo.add")
    if raised is None or summed is None or summed[0] is not power or len(summed[1]) != 1:
        return False
    less = _maker(raised.operands[0], "stablehlo.subtract")
    if less is None:
        return False
    value, most = less.operands
    highest = _reduced(most, rank, "stablehlo.maximum")
    if highest != (value, summed[1]) or value.element not in _NORMED:
        return False
    return _become(operation, SOFTMAX, value, axis=summed[1][0])


def _mean(value: Value, rank: int) -> tuple[Value, tuple[int, ...]] | None:
    """The array and the axes of a mean that is repeated along them again."""
    inner, axes = _kept(value)
    divided = _maker(inner, "stablehlo.divide", "stablehlo.multiply")
    if divided is None:
        return None
    total, count = divided.operands
    known = _number(count)
    if known is None:
        total, count = count, total
        known = _number(count)
    reduced = _reduced_under(total, axes, rank)
    if reduced is None or known is None:
        return None
    array, over = reduced
    length = float(prod(array.shape[axis] for axis in over))
    wanted = length if divided.name == "stablehlo.divide" else 1 / length
    return (
        reduced
        if isclose(known, wanted, rel_tol=_CLOSE)
        and divided.operands[0] is not count
        or (divided.name == "stablehlo.multiply" and isclose(known, wanted, rel_tol=_CLOSE))
        else None
    )


def _reduced_under(
    total: Value, axes: tuple[int, ...] | None, rank: int
) -> tuple[Value, tuple[int, ...]] | None:
    """A sum whose result, after what was done to it, is repeated along `axes`."""
    inner, more = _kept(total)
    if more is not None:
        axes = tuple(axes[each] for each in more) if axes is not None else more
    made_by = _maker(inner, "stablehlo.reduce")
    if (
        made_by is None
        or len(made_by.results) != 1
        or body_of(made_by.blocks[0]) != "stablehlo.add"
    ):
        return None
    array = made_by.operands[0]
    over = tuple(int(each) for each in made_by.attributes["dimensions"])
    left = tuple(axis for axis in range(len(array.shape)) if axis not in over)
    if _number(made_by.operands[1]) != 0 or len(array.shape) != rank:
        return None
    places = axes if axes is not None else tuple(range(len(inner.shape)))
    ok = all(p == a or s == 1 for p, a, s in zip(places, left, inner.shape, strict=True))
    return (array, over) if ok else None


def _is_square_of(value: Value, test: Callable[[Value], bool]) -> bool:
    made_by = _maker(value, "stablehlo.multiply")
    return (
        made_by is not None
        and made_by.operands[0] is made_by.operands[1]
        and test(made_by.operands[0])
    )


def _centred(value: Value) -> tuple[Value, int] | None:
    """The array from which its mean over the last axis is taken."""
    made_by = _maker(value, "stablehlo.subtract")
    if made_by is None:
        return None
    array, mean = made_by.operands
    rank = len(array.shape)
    return (array, rank) if _mean(mean, rank) == (array, (rank - 1,)) else None


def _variance_of(value: Value, array: Value) -> bool:
    """Whether a value is the variance of an array over its last axis, repeated along it."""
    rank = len(array.shape)
    limits, axes = _kept(value)
    highest = _maker(limits, "stablehlo.maximum")
    if highest is not None and axes is None:
        for zero, rest in _pairs(highest):
            if _number(zero) == 0:
                return _variance_of(rest, array)
    found = _mean(value, rank)
    if found is not None and found[1] == (rank - 1,):

        def centred(each: Value) -> bool:
            return _centred(each) == (array, rank)

        return _is_square_of(found[0], centred)
    less = _maker(limits, "stablehlo.subtract")
    if less is None:
        return False
    return _of_squares(value, less, array)


def _of_squares(value: Value, less: Operation, array: Value) -> bool:
    """The mean of the squares less the square of the mean."""
    rank = len(array.shape)
    squares, square = less.operands
    found = _mean_of(squares, rank)
    if found is None or found[1] != (rank - 1,):
        return False
    if not _is_square_of(found[0], lambda each: each is array):
        return False
    return _is_square_of(square, lambda each: _mean_of(each, rank) == (array, (rank - 1,)))


def _mean_of(value: Value, rank: int) -> tuple[Value, tuple[int, ...]] | None:
    """A mean that is repeated later."""
    inner, _ = _kept(value)
    divided = _maker(inner, "stablehlo.divide")
    if divided is None:
        return None
    made_by = _maker(_kept(divided.operands[0])[0], "stablehlo.reduce")
    if (
        made_by is None
        or len(made_by.results) != 1
        or body_of(made_by.blocks[0]) != "stablehlo.add"
    ):
        return None
    array = made_by.operands[0]
    over = tuple(int(each) for each in made_by.attributes["dimensions"])
    if _number(made_by.operands[1]) != 0 or len(array.shape) != rank:
        return None
    length = prod(array.shape[axis] for axis in over)
    return (array, over) if _is(divided.operands[1], length) else None


def _norm(operation: Operation) -> bool:
    """(x - mean) * rsqrt(variance + epsilon), and the same without the mean."""
    value = operation.result
    if value.element not in _NORMED or not value.shape:
        return False
    if operation.name == "stablehlo.divide":
        one, other = operation.operands
        root = _maker(_kept(other)[0], "stablehlo.sqrt")
        return root is not None and _normed(operation, one, other, root, [])
    for one, other in _pairs(operation):
        root = _maker(_kept(other)[0], "stablehlo.rsqrt")
        if root is not None and _normed(operation, one, other, root, []):
            return True
        # rsqrt(…) * scale, both repeated, as flax has it.
        product = _maker(other, "stablehlo.multiply")
        for inverse, scale in _pairs(product) if product else ():
            root = _maker(_kept(inverse)[0], "stablehlo.rsqrt")
            if root is not None and _normed(operation, one, inverse, root, [scale]):
                return True
    return False


def _normed(
    operation: Operation, one: Value, other: Value, root: Operation, scale: list[Value]
) -> bool:
    added = _maker(root.operands[0], "stablehlo.add")
    if added is None or other.shape != one.shape:
        return False
    for number, variance in _pairs(added):
        epsilon = _number(number)
        if epsilon is None or epsilon < 0:
            continue
        repeated = _repeated(other, root.result, variance)
        if repeated is None:
            continue
        rank = len(one.shape)
        centred = _centred(one)
        if (
            centred is not None
            and repeated
            and _variance_of(variance, centred[0])
            and _last(other, rank)
        ):
            return _scale(operation, LAYER_NORM, centred[0], scale, epsilon)
        mean = _mean_of(variance, rank)
        if (
            mean is not None
            and mean[1] == (rank - 1,)
            and _is_square_of(mean[0], lambda each: each is one)
            and _last(other, rank)
        ):
            return _scale(operation, RMS_NORM, one, scale, epsilon)
    return False


def _repeated(other: Value, root: Value, variance: Value) -> bool | None:
    inner, _ = _kept(other)
    return True if inner is root and variance.shape == root.shape else None


def _last(other: Value, rank: int) -> bool:
    """Whether a value is the same along its last axis and has its own number elsewhere."""
    inner, axes = _kept(other)
    places = axes if axes is not None else tuple(range(len(inner.shape)))
    sizes = [1] * rank
    for place, size in zip(places, inner.shape, strict=True):
        sizes[place] = size
    return tuple(sizes) == (*other.shape[:-1], 1) and list(places) == sorted(places)


def _scale(
    operation: Operation, name: str, value: Value, scale: list[Value], epsilon: float
) -> bool:
    scales = []
    for each in scale:
        row = _row(each)
        if row is None:
            return False
        scales.append(row)
    return _become(operation, name, value, *scales, epsilon=epsilon)


def _row(value: Value) -> Value | None:
    """The list of numbers that is repeated along all axes but the last."""
    inner, axes = _kept(value)
    last = len(value.shape) - 1
    if len(inner.shape) == 1 and axes == (last,) and inner.shape[0] == value.shape[-1]:
        return inner
    return None


def _scaled_norm(operation: Operation) -> bool:
    """A normalization with its scale."""
    for normed, factor in _pairs(operation):
        made_by, row = _maker(normed, LAYER_NORM, RMS_NORM), _row(factor)
        if made_by is not None and row is not None and len(made_by.operands) == 1:
            return _become(operation, made_by.name, made_by.operands[0], row, **made_by.attributes)
    return False


def _shifted_norm(operation: Operation) -> bool:
    for normed, added in _pairs(operation):
        made_by, row = _maker(normed, LAYER_NORM), _row(added)
        if made_by is not None and row is not None and len(made_by.operands) == 2:
            return _become(operation, LAYER_NORM, *made_by.operands, row, **made_by.attributes)
    return False


def _arg_extreme(operation: Operation) -> bool:
    """jax's argmax and argmin: a reduction of the numbers with their places."""
    if len(operation.results) != 2 or len(operation.attributes["dimensions"]) != 1:
        return False
    value, places = operation.operands[:2]
    (axis,) = (int(each) for each in operation.attributes["dimensions"])
    counted = _maker(_kept(places)[0], "stablehlo.iota")
    words = _words(operation.blocks[0])
    if (
        counted is None
        or _kept(places)[1] is not None
        or words not in _ARG
        or value.element == "f64"
    ):
        return False
    if counted.attributes["iota_dimension"] != axis or _number(operation.operands[3]) != 0:
        return False
    start = _number(operation.operands[2])
    name, floats = _ARG[words]
    if start is None or not _is_lowest(start, value, name) or not value.size:
        return False
    if floats != value.element.startswith(("f", "bf")):
        return False
    return _become(operation, name, value, axis=axis)


def _is_lowest(start: float, value: Value, name: str) -> bool:
    from aotc.backends.onnx.reductions import neutral

    which = "stablehlo.maximum" if name == ARG_MAX else "stablehlo.minimum"
    least = neutral(which, value.element)
    return isinstance(least, bool | int | float) and float(least) == start


def _words(block: Block) -> str:
    """A function of single numbers as a text."""
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


def _arg_words(direction: str, floats: bool) -> str:
    picked = f"compare{direction}(a0,a2)"
    if floats:
        picked = f"or({picked},compareNE(a0,a0))"
    first = "and(compareEQ(a0,a2),compareLT(a1,a3))"
    return f"select({picked},a0,a2);select(or({picked},{first}),a1,a3)"


_ARG = {
    _arg_words(direction, floats): (name, floats)
    for direction, name in (("GT", ARG_MAX), ("LT", ARG_MIN))
    for floats in (False, True)
}

_MATCHES: dict[str, Sequence[Callable[[Operation], bool]]] = {
    "stablehlo.add": (_shifted_norm,),
    "stablehlo.divide": (_softmax, _norm),
    "stablehlo.maximum": (_relu,),
    "stablehlo.multiply": (_scaled_norm, _norm, _swish, _gelu),
    "stablehlo.reduce": (_arg_extreme,),
}
