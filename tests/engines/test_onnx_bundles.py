"""Signed ONNX graphs that are not aotc's: what ONNX Runtime would open is refused before it."""

from pathlib import Path

import pytest

from tests.conftest import Once
from tests.engines.conftest import ENGINES
from tests.engines.sums import refused_at_load, with_code


@pytest.fixture(scope="session")
def sums(once: Once) -> Path:
    return ENGINES[1].sums(once)


onnx = pytest.importorskip("onnx")
SECRET = "secret.bin"


def naming_a_file(code: bytes) -> bytes:
    """The graph with its first weight in a file beside the process instead."""
    model = onnx.ModelProto.FromString(code)
    weight = next(each for each in model.graph.initializer if each.external_data)
    for entry in weight.external_data:
        if entry.key == "location":
            entry.value = SECRET
    return bytes(model.SerializeToString())


def naming_a_file_within(code: bytes) -> bytes:
    """The graph with a constant of a node in such a file."""
    model = onnx.ModelProto.FromString(code)
    tensor = onnx.TensorProto(
        name="x", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=SECRET)
    node = onnx.helper.make_node("Constant", [], ["stolen"], value=tensor)
    model.graph.node.insert(0, node)
    return bytes(model.SerializeToString())


def naming_another_weight(code: bytes) -> bytes:
    """The graph with a weight that the program does not bind."""
    model = onnx.ModelProto.FromString(code)
    weight = next(each for each in model.graph.initializer if each.external_data)
    old, weight.name = weight.name, "w7"
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = "w7"
    return bytes(model.SerializeToString())


OUTSIDE = {
    "a weight in a file": naming_a_file,
    "a constant in a file": naming_a_file_within,
    "a weight of another program": naming_another_weight,
}


@pytest.mark.parametrize("change", OUTSIDE)
def test_a_graph_that_refers_to_anything_but_its_weights_is_refused(
    sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Signed as it is: ONNX Runtime itself opens files beside the process that a graph names."""
    monkeypatch.chdir(tmp_path)
    Path(SECRET).write_bytes(bytes(4096))
    finding = refused_at_load(sums / "sums.aotb", tmp_path, with_code(OUTSIDE[change]))
    expected = "a weight 7" if "program" in change else "an array outside of the graph"
    assert finding.code == "AOTC-E753" and expected in finding.found
