"""Checks of an ONNX graph by the loader before ONNX Runtime reads it.

Graphs are written here field by field, as onnx.proto3 numbers them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.engines.onnxruntime.onnx_reader import GraphError, read

WEIGHTS = "weights"


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, location: str | None = None, *, marked: bool = True) -> bytes:
    """A TensorProto; outside of the graph where a location is given."""
    data = field(1, 3) + field(2, 1) + field(8, name)
    if location is None:
        return data + field(9, bytes(12))
    entry = field(1, "location") + field(2, location)
    return data + field(13, entry) + (field(14, 1) if marked else b"")


def result(shape: Sequence[int], kind: int = 1) -> bytes:
    """A ValueInfoProto."""
    dimensions = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, "r0") + field(2, field(1, field(1, kind) + field(2, dimensions)))


def node(*attributes: bytes) -> bytes:
    """A NodeProto in a graph."""
    return field(1, field(4, "Op") + b"".join(field(5, each) for each in attributes))


def model(graph: bytes, more: bytes = b"") -> memoryview[int]:
    return memoryview(field(1, 13) + field(7, graph) + more)


def test_weights_and_results_are_read() -> None:
    graph = field(5, tensor("w3", WEIGHTS)) + field(5, tensor("c1")) + field(12, result((2, 4)))
    found = read(model(graph))
    assert found.weights == (3,)
    assert found.results == (((2, 4), 1),)
    assert not found.pooled


def test_a_graph_says_that_it_is_worth_several_threads() -> None:
    told = field(14, field(1, "aotc.pooled") + field(2, "1"))
    found = read(model(field(12, result(())), told))
    assert found.pooled and not found.spinning
    told = field(14, field(1, "aotc.pooled") + field(2, "spinning"))
    found = read(model(field(12, result(())), told))
    assert found.pooled and found.spinning
    assert not read(model(b"", field(14, field(1, "other") + field(2, "aotc.pooled")))).pooled


def test_constants_within_nodes_and_loops_are_fine() -> None:
    body = field(5, tensor("inside")) + node(field(5, tensor("")))
    assert read(model(node(field(5, tensor("")), field(6, body)))).weights == ()


OUTSIDE = {
    "a weight in a file": field(5, tensor("w0", "/etc/passwd")),
    "in the folder of the process": field(5, tensor("w0", "weights.bin")),
    "another array where the weights are": field(5, tensor("c1", WEIGHTS)),
    "a weight of no number": field(5, tensor("wx", WEIGHTS)),
    "a weight with a zero before its number": field(5, tensor("w01", WEIGHTS)),
    "one that is not marked as outside": field(5, tensor("w0", "a", marked=False)),
    "one that is marked and says nothing": field(5, field(8, "w0") + field(14, 1)),
    "two locations": field(
        5, tensor("w0", WEIGHTS) + field(13, field(1, "location") + field(2, "a"))
    ),
    "a constant of a node": node(field(5, tensor("", WEIGHTS))),
    "one of several": node(field(10, tensor("", "a"))),
    "in a loop": node(field(6, field(5, tensor("w0", WEIGHTS)))),
    "in one of several branches": node(field(11, node(field(5, tensor("", "a"))))),
    "a sparse array": field(15, b""),
    "a sparse constant": node(field(22, b"")),
    "several sparse constants": node(field(23, b"")),
    "a sparse array in a loop": node(field(6, field(15, b""))),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_whatever_lies_outside_of_a_graph_is_refused_but_its_weights(name: str) -> None:
    with pytest.raises(GraphError):
        read(model(OUTSIDE[name]))


@pytest.mark.parametrize("number", [20, 25])
def test_functions_and_training_are_refused(number: int) -> None:
    with pytest.raises(GraphError, match="functions"):
        read(model(b"", field(number, b"")))


@pytest.mark.parametrize("loops", [64, 65])
def test_so_many_loops_within_each_other_and_no_more(loops: int) -> None:
    graph = b""
    for _ in range(loops):
        graph = node(field(6, graph))
    if loops == 64:
        assert read(model(graph)).weights == ()
    else:
        with pytest.raises(GraphError, match="deeper"):
            read(model(graph))


def test_of_a_result_only_its_type_and_sizes_are_read() -> None:
    dimensions = field(1, field(3, "DATA") + field(1, 4)) + field(1, field(2, "n"))
    kind = field(1, 1) + field(2, dimensions) + field(3, 9)
    found = read(model(field(12, field(1, "r0") + field(2, field(1, kind)))))
    assert found.results == (((4, -1), 1),)
    text = field(12, field(1, "r0") + field(2, field(1, field(1, "x"))))
    assert read(model(text)).results == (((), 0),)


def test_a_weight_may_say_more_than_its_location() -> None:
    more = field(13, field(1, "offset") + field(2, "0"))
    assert read(model(field(5, tensor("w2", WEIGHTS) + more))).weights == (2,)


NO_GRAPH = {
    "nothing": b"",
    "text": b"AOTC" * 64,
    "a length beyond the end": field(7, bytes(10))[:-1],
    "a length beyond the end of what is skipped": field(7, b"") + field(2, "abc")[:-1],
    "a number that does not end": b"\xff" * 32,
    "two graphs": field(7, b"") * 2,
    "a graph that is a number": field(7, 5),
    "a name that is no text": field(7, field(5, field(8, b"\xff") + field(14, 1))),
}


@pytest.mark.parametrize("name", NO_GRAPH)
def test_what_is_no_graph_is_refused(name: str) -> None:
    with pytest.raises(GraphError):
        read(memoryview(NO_GRAPH[name]))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for given_ in (data, field(7, data)):
        try:
            read(memoryview(given_))
        except GraphError:
            continue
