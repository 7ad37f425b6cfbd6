"""Read an ONNX graph before ONNX Runtime: its external memory, and its results.

ONNX Runtime opens files that a graph names. Graphs of aotc name none: weights are passed as arrays,
and a graph that refers to anything else is rejected. Fields are numbered as in onnx.proto3
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3).
"""

from collections.abc import Iterator
from typing import NamedTuple

from aotc_runtime.engines import graph_names
from aotc_runtime.engines.onnxruntime import onnxruntime_names
from aotc_runtime.formats.protobuf_wire import VARINT, WireError, read_field

_DEPTH_MAX = 64
"""The maximum nesting of bodies of loops and branches."""

_EXTERNAL = 1
"""TensorProto.DataLocation."""

type View = memoryview[int]


class Graph(NamedTuple):
    """Inputs and outputs of a graph.

    Attributes:
        weights: indices of its weights.
        results: shape and ONNX type number of each, in order.
        pooled: whether a call is worth several threads.
        spinning: whether these spin while they wait for each other.
    """

    weights: tuple[int, ...]
    results: tuple[tuple[tuple[int, ...], int], ...]
    pooled: bool
    spinning: bool


class GraphError(ValueError):
    """Reason why bytes are no graph that aotc made."""


def read(data: View) -> Graph:
    """Read an ONNX model.

    Raises GraphError for other bytes, and for a graph that refers to more than its weights.
    """
    graphs, pooled, spinning = [], False, False
    for number, value in _fields(data):
        if number == 7:
            graphs.append(_message(value))
        elif number == 14:
            told = {at: _text(text) for at, text in _fields(_message(value))}
            if told.get(1) == onnxruntime_names.POOLED:
                pooled, spinning = True, told.get(2) == onnxruntime_names.SPINNING
        elif number in (20, 25):
            raise GraphError("a graph with functions of its own")
    if len(graphs) != 1:
        raise GraphError("no ONNX graph")
    weights: list[int] = []
    results = []
    for number, value in _fields(graphs[0]):
        if number == 5:
            weights += _weight(_message(value))
        elif number == 12:
            results.append(_result(_message(value)))
        else:
            _graph_field(number, value, 0)
    return Graph(tuple(weights), tuple(results), pooled, spinning)


def _graph_field(number: int, value: View | int, depth: int) -> None:
    """Check a field of a graph, which must not refer to memory outside."""
    if number == 1:
        for inner, attribute in _fields(_message(value)):
            if inner == 5:
                _attribute(_message(attribute), depth + 1)
    elif number == 5:
        _require_inside(_message(value))
    elif number == 15:
        raise GraphError("a sparse array")


_TENSORS, _GRAPHS, _SPARSE = (5, 10), (6, 11), (22, 23)


def _attribute(attribute: View, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise GraphError(f"bodies of loops deeper than {_DEPTH_MAX}")
    for number, value in _fields(attribute):
        if number in _TENSORS:
            _require_inside(_message(value))
        elif number in _SPARSE:
            raise GraphError("a sparse array")
        elif number in _GRAPHS:
            for inner, field in _fields(_message(value)):
                _graph_field(inner, field, depth)


def _reference(tensor: View) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the name of an array and what says where it lies; None for one within the graph."""
    name, keys, outside = "", [], False
    for number, value in _fields(tensor):
        if number == 8:
            name = _text(value)
        elif number == 13:
            pair = {inner: _text(text) for inner, text in _fields(_message(value))}
            keys.append((pair.get(1, ""), pair.get(2, "")))
        elif number == 14:
            outside = value == _EXTERNAL
    return (name, keys) if keys or outside else None


def _require_inside(tensor: View) -> None:
    if (found := _reference(tensor)) is not None:
        raise GraphError(f"an array outside of the graph: {found}"[:200])


def _weight(tensor: View) -> list[int]:
    """Return the place of a weight; none for an array within the graph."""
    found = _reference(tensor)
    if found is None:
        return []
    name, keys = found
    digits = name.removeprefix(graph_names.weight(0)[:-1])
    is_ours = (
        digits.isascii() and digits.isdecimal() and name == graph_names.weight(int(digits[:9]))
    )
    if not is_ours or [value for key, value in keys if key == "location"] != [
        onnxruntime_names.WEIGHTS
    ]:
        raise GraphError(f"an array outside of the graph: {found}"[:200])
    return [int(digits)]


def _result(value: View) -> tuple[tuple[int, ...], int]:
    """Shape and type of what a graph gives; -1 for a size that is not stated."""
    kind, shape = 0, []
    for tensor in _within(_message(value), 2, 1):
        for number, field in _fields(tensor):
            if number == 1 and isinstance(field, int):
                kind = field
            elif number == 2:
                for each, dimension in _fields(_message(field)):
                    if each == 1:
                        sizes = [size for at, size in _fields(_message(dimension)) if at == 1]
                        shape.append(sizes[0] if sizes and isinstance(sizes[0], int) else -1)
    return tuple(shape), kind


def _within(message: View, *path: int) -> Iterator[View]:
    if not path:
        yield message
        return
    for number, value in _fields(message):
        if number == path[0]:
            yield from _within(_message(value), *path[1:])


def _message(value: View | int) -> View:
    if isinstance(value, int):
        raise GraphError("a number where a message is expected")
    return value


def _text(value: View | int) -> str:
    try:
        return bytes(_message(value)).decode()
    except UnicodeDecodeError as error:
        raise GraphError("a name that is no text") from error


def _fields(data: View) -> Iterator[tuple[int, View | int]]:
    """Yield the fields of a message: its number, and a number or bytes."""
    at, end = 0, len(data)
    while at < end:
        try:
            number, kind, value, at = read_field(data, at, end)
        except WireError as error:
            raise GraphError("no ONNX graph") from error
        yield number, value if kind == VARINT else data[value:at]
