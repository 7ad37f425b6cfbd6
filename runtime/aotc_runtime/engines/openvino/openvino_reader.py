"""Read a graph before OpenVINO: its memory, its inputs and its results.

A graph in OpenVINO's IR, version 11, is XML, whose constants are ranges of a block of bytes. A
graph that refers to anything outside of that block is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from aotc_runtime.engines import graph_names
from aotc_runtime.engines.openvino.openvino_names import POOLED, SINGLE

_LENGTH = 8

VERSION = "11"
"""The format's version."""

_DOCTYPE = b"<!"
"""Prefixes of XML declarations, which are rejected, so there are no entities."""

type Shape = tuple[int, ...]


class Graph(NamedTuple):
    """Inputs and outputs of a graph.

    Attributes:
        xml, constants: the input of OpenVINO.
        weights, given: indices of its parameters among the executable's arguments.
        results: shape and OpenVINO type of each, in order.
        pooled: whether a call is worth several threads.
    """

    xml: bytes
    constants: bytes
    weights: tuple[int, ...]
    given: tuple[int, ...]
    results: tuple[tuple[Shape, str], ...]
    pooled: bool


class GraphError(ValueError):
    """Reason why bytes are no graph that aotc made."""


def read(data: memoryview[int]) -> Graph:
    """Read a graph of aotc's for OpenVINO.

    Raises GraphError for other bytes, and for a graph that refers to more than its constants.
    """
    begin = bytes(data[: len(POOLED)])
    if begin not in (POOLED, SINGLE):
        raise GraphError("no graph of aotc's for OpenVINO")
    at = len(begin) + _LENGTH
    size = int.from_bytes(data[len(begin) : at], "little")
    if size > len(data) - at:
        raise GraphError("a graph that is cut")
    xml, constants = bytes(data[at : at + size]), bytes(data[at + size :])
    if _DOCTYPE in xml:
        raise GraphError("a graph with declarations")
    try:
        net = ElementTree.fromstring(xml)
    except (ElementTree.ParseError, ValueError) as error:
        raise GraphError(f"no XML: {error}") from error
    if net.tag != "net" or net.get("version") != VERSION:
        raise GraphError(f"no graph of version {VERSION}")
    for each in net.iter():
        _require_inside(each, len(constants))
    layers = net.find("layers")
    top = {each.get("id", ""): each for each in layers} if layers is not None else {}
    names = [each.get("name", "") for each in top.values() if each.get("type") == "Parameter"]
    return Graph(
        xml,
        constants,
        _places(names, graph_names.weight(0)[:-1]),
        _places(names, graph_names.input_name(0)[:-1]),
        tuple(_results(net, top)),
        begin == POOLED,
    )


def _require_inside(element: Element, size: int) -> None:
    """Constants lie within the block, whatever graph within this one has them."""
    if "offset" not in element.attrib and "size" not in element.attrib:
        return
    start, length = _number(element, "offset"), _number(element, "size")
    if start + length > size:
        raise GraphError(f"a constant at {start} to {start + length} of {size} bytes")


def _number(element: Element, name: str) -> int:
    text = element.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise GraphError(f"a constant whose {name} is {text!r}"[:200])
    return int(text)


def _places(names: list[str], letter: str) -> tuple[int, ...]:
    """Return the indices in parameter names with this letter, in the graph's order."""
    known = graph_names.weight(0)[:-1], graph_names.input_name(0)[:-1]
    for name in names:
        digits = name[1:]
        if name[:1] not in known or not (digits.isascii() and digits.isdecimal()):
            raise GraphError(f"a parameter {name!r}"[:200])
    return tuple(int(name[1:][:9]) for name in names if name[0] == letter)


def _results(net: Element, top: dict[str, Element]) -> Iterator[tuple[Shape, str]]:
    """Yield shape and type of each result. Several may share a source, and its names."""
    edges = net.find("edges")
    sources = {
        edge.get("to-layer", ""): (edge.get("from-layer", ""), edge.get("from-port", ""))
        for edge in (edges if edges is not None else ())
    }
    results = [number for number, each in top.items() if each.get("type") == "Result"]
    for place, number in enumerate(results):
        names = top[number].get("output_names", "").split(",")
        if graph_names.result(place) not in names:
            raise GraphError(f"a result {place} called {names}"[:200])
        layer, port = sources.get(number, ("", ""))
        outputs = top[layer].findall("output/port") if layer in top else ()
        found = [output for output in outputs if output.get("id") == port]
        if len(found) != 1:
            raise GraphError(f"a result {place} of nothing")
        sizes = [size.text or "" for size in found[0].findall("dim")]
        if not all(size.isascii() and size.isdecimal() for size in sizes):
            raise GraphError(f"a result {place} of shape {sizes}"[:200])
        yield tuple(map(int, sizes)), found[0].get("precision", "")
