"""Refusals of OpenVINO graphs before OpenVINO sees them; it is not needed here."""

from __future__ import annotations

import pytest

from aotc_runtime.engines.openvino.openvino_names import POOLED, SINGLE
from aotc_runtime.engines.openvino.openvino_reader import GraphError, read

XML = """<?xml version="1.0"?>
<net name="main" version="11">
  <layers>
    <layer id="0" name="p1" type="Parameter" version="opset1">
      <output><port id="0" precision="FP32" names="p1"><dim>4</dim></port></output>
    </layer>
    <layer id="1" name="w0" type="Parameter" version="opset1">
      <output><port id="0" precision="FP32" names="w0"><dim>4</dim></port></output>
    </layer>
    <layer id="2" name="c" type="Const" version="opset1">
      <data element_type="f32" shape="2" offset="8" size="8" />
      <output><port id="0" precision="FP32"><dim>2</dim></port></output>
    </layer>
    <layer id="3" name="Add" type="Add" version="opset1">
      <output><port id="2" precision="FP32" names="r0"><dim>4</dim></port></output>
    </layer>
    <layer id="4" name="r0" type="Result" version="opset1" output_names="c,r0" />
    <layer id="5" name="r1" type="Result" version="opset1" output_names="r1,r2" />
    <layer id="6" name="r2" type="Result" version="opset1" output_names="r1,r2" />
  </layers>
  <edges>
    <edge from-layer="2" from-port="0" to-layer="4" to-port="0" />
    <edge from-layer="3" from-port="2" to-layer="5" to-port="0" />
    <edge from-layer="3" from-port="2" to-layer="6" to-port="0" />
  </edges>
</net>
"""
CONSTANTS = bytes(16)


def made(xml: str = XML, constants: bytes = CONSTANTS, begin: bytes = SINGLE) -> memoryview[int]:
    text = xml.encode()
    return memoryview(begin + len(text).to_bytes(8, "little") + text + constants)


def test_parameters_and_results_are_found_by_their_names() -> None:
    graph = read(made())
    assert (graph.weights, graph.given, graph.pooled) == ((0,), (1,), False)
    assert graph.results == (((2,), "FP32"), ((4,), "FP32"), ((4,), "FP32"))
    assert graph.constants == CONSTANTS and graph.xml == XML.encode()
    assert read(made(begin=POOLED)).pooled


REFUSED: dict[str, tuple[memoryview[int], str]] = {
    "nothing": (memoryview(b""), "no graph of aotc's"),
    "other bytes": (memoryview(b"AOTC" * 64), "no graph of aotc's"),
    "half of it": (made()[:400], "a graph that is cut"),
    "no XML": (made("<net"), "no XML"),
    "another element": (made('<nut version="11" />'), "no graph of version 11"),
    "another version": (made('<net version="10" />'), "no graph of version 11"),
    "an entity": (made('<!DOCTYPE net [<!ENTITY a "b">]>' + XML), "declarations"),
    "a constant beyond its bytes": (made(constants=bytes(15)), "a constant at 8 to 16 of 15"),
    "a constant before its bytes": (
        made(XML.replace('offset="8"', 'offset="-8"')),
        "a constant whose offset is '-8'",
    ),
    "a constant of no size": (made(XML.replace(' size="8"', "")), "a constant whose size is ''"),
    "a constant at no place": (made(XML.replace(' offset="8"', "")), "whose offset is ''"),
    "a place of 20 digits": (
        made(XML.replace('offset="8"', 'offset="00000000000000000008"')),
        "a constant whose offset",
    ),
    "a parameter of another letter": (made(XML.replace('"w0"', '"x0"')), "parameter 'x0'"),
    "results without edges": (made(XML.replace("edges", "other")), "a result 0 of nothing"),
    "a result of a layer that is not there": (
        made(XML.replace('from-layer="2"', 'from-layer="99"')),
        "a result 0 of nothing",
    ),
    "a parameter of another name": (made(XML.replace('"w0"', '"weights"')), "parameter 'weights'"),
    "a result of another name": (made(XML.replace("r1,r2", "r7")), "a result 1 called"),
    "results in another order": (made(XML.replace("c,r0", "r1")), "a result 0 called"),
    "a result of nothing": (made(XML.replace('from-port="2"', 'from-port="9"')), "1 of nothing"),
    "a result of any size": (
        made(XML.replace("<dim>2</dim>", "<dim>-1</dim>")),
        "a result 0 of shape",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_graph_of_ours_is_refused(name: str) -> None:
    data, told = REFUSED[name]
    with pytest.raises(GraphError, match=told):
        read(data)


def test_a_graph_may_be_without_constants_and_without_layers() -> None:
    assert read(made('<net version="11" />', constants=b"")).results == ()
