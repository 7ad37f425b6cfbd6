"""Tests of the errors of an engine's device, in this process and without a bundle."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aotc_runtime
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines import engine_registry
from aotc_runtime.engines.engine_arrays import Aval, Stored
from aotc_runtime.engines.engine_device import Device
from aotc_runtime.verification.verify_bundle import VerifiedBlob
from tests.conftest import Once
from tests.engines.conftest import ENGINES, Other
from tests.engines.sums import IMAGE, KERNEL, SCORES, make, write
from tests.hostile.tampering import in_memory, take_apart

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int32)
STATE, TOKEN, TOTAL = Aval((5,), FLOAT), Aval((), INT), Aval((), FLOAT)
GIVEN = Aval((4, 4), FLOAT)
IREE, ONNX, OPENVINO = ENGINES

STEP = [np.zeros(5, np.float32), np.array(1, np.int32)]


@pytest.fixture
def device(other: Other) -> Device:
    return engine_registry.start(other.name)


def stored(code: bytes, outputs: Sequence[Aval]) -> Stored:
    return Stored(VerifiedBlob(sha256(code), memoryview(code)), outputs, "here")


def step(sums: Path) -> bytes:
    """The executable that takes no weights."""
    documents = take_apart(in_memory(sums / "sums.aotb"))
    profile = documents.manifest["entry_points"]["step"]["profiles"][0]
    return documents.layers[profile["executable"]["digest"]]


def predict(sums: Path) -> tuple[bytes, list[Aval]]:
    """The executable for four rows, of two weights and one input, and what it gives."""
    documents = take_apart(in_memory(sums / "sums.aotb"))
    entry_point = documents.manifest["entry_points"]["predict"]
    (profile,) = (each for each in entry_point["profiles"] if each["sizes"] == {"batch": 4})
    dtypes = [np.dtype(each["dtype"]) for each in entry_point["outputs"]]
    shapes = [tuple(shape) for shape in profile["output_shapes"]]
    code = documents.layers[profile["executable"]["digest"]]
    return code, [Aval(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


def refused(device: Device, code: bytes, outputs: Sequence[Aval]) -> Finding:
    """Return what bytes are refused for, when they are read or when they get their weights."""
    with pytest.raises(aotc_runtime.BackendError) as caught:
        (loaded,) = device.deserialize([stored(code, outputs)], [0], [])
        device.direct(loaded, [], [STATE, TOKEN], outputs)
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("AOTC-E753", "here")
    return finding


@pytest.mark.parametrize(
    "outputs",
    [[STATE], [STATE, STATE], [STATE, TOKEN], [TOTAL, STATE], [STATE, TOTAL, TOTAL]],
    ids=["fewer", "another shape", "another type", "another order", "more"],
)
def test_results_unlike_the_manifest(device: Device, sums: Path, outputs: list[Aval]) -> None:
    assert " that gives " in refused(device, step(sums), outputs).found


def test_an_executable_without_the_weights_that_it_needs(device: Device, sums: Path) -> None:
    code, outputs = predict(sums)
    refused(device, code, outputs)


def test_failing_call_is_an_engine_error_and_next_is_served(device: Device, sums: Path) -> None:
    (loaded,) = device.deserialize([stored(step(sums), [STATE, TOTAL])], [0], [])
    wrong = np.zeros(7, np.float32)
    call: Any = device.direct(loaded, [], [STATE, TOKEN], [STATE, TOTAL])
    with pytest.raises(device.error):
        call(wrong, STEP[1])
    with pytest.raises(device.error):
        placed = [device.put(wrong, Aval((7,), FLOAT)), device.put(STEP[1], TOKEN)]
        device.execute(loaded, placed)
    state, total = call(*STEP)
    assert device.to_numpy(state, STATE).tolist() == [0, 1, 0, 0, 0]
    assert device.to_numpy(total, TOTAL) == 1.0


def test_so_does_one_of_a_single_input_with_weights(device: Device, sums: Path) -> None:
    code, outputs = predict(sums)
    (loaded,) = device.deserialize([stored(code, outputs)], [0], [])
    arrays = [np.arange(3, dtype=np.float32), KERNEL]
    weights = [device.share(each, Aval(each.shape, FLOAT)) for each in arrays]
    call: Any = device.direct(loaded, weights, [GIVEN], outputs)
    with pytest.raises(device.error):
        call(np.zeros((3, 3), np.float32))
    read = [device.to_numpy(each, aval) for each, aval in zip(call(IMAGE), outputs, strict=True)]
    (scores,) = (each for each in read if each.ndim == 2)
    np.testing.assert_allclose(scores, SCORES, atol=1e-5)


MODULE = """
func.func @NAME(%given: tensor<5xf32>) -> tensor<5xf32> {
  return %given : tensor<5xf32>
}
"""


@pytest.mark.iree
@pytest.mark.skipif(not IREE.is_here(), reason="`make test-iree` installs IREE")
@pytest.mark.parametrize(
    ("name", "found"),
    [("other", "a module without the function run"), ("run", "code for the driver 'None'")],
)
def test_modules_that_aotc_did_not_compile_are_told_from_its_own(name: str, found: str) -> None:
    import iree.compiler

    code = iree.compiler.compile_str(
        MODULE.replace("NAME", name),
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=generic"],
    )
    assert refused(engine_registry.start("iree"), code, [STATE]).found == found


@pytest.mark.onnx
@pytest.mark.skipif(not ONNX.is_here(), reason="`make test-onnx` installs ONNX Runtime")
def test_a_graph_of_operators_that_onnx_runtime_has_not_is_refused_in_its_words() -> None:
    from onnx import TensorProto, helper

    node = helper.make_node("Nothing", ["p0"], ["r0"], domain="nobody")
    given, result = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in ("p0", "r0")
    )
    graph = helper.make_graph([node], "graph", [given], [result])
    code = helper.make_model(graph).SerializeToString()
    assert "Nothing" in refused(engine_registry.start("onnxruntime"), code, [STATE]).found


@pytest.mark.openvino
@pytest.mark.skipif(not OPENVINO.is_here(), reason="`make test-openvino` installs OpenVINO")
def test_a_graph_that_takes_inputs_by_other_names_is_refused(once: Once) -> None:
    folder = once("openvino-sums", lambda folder: make(folder, write(folder, OPENVINO.listed)))
    begin, _, rest = step(folder).partition(b"\n")
    size = int.from_bytes(rest[:8], "little")
    graph, constants = rest[8 : 8 + size], rest[8 + size :]
    renamed = graph.replace(b'name="p0"', b'name="p00"')
    assert renamed != graph
    code = begin + b"\n" + len(renamed).to_bytes(8, "little") + renamed + constants
    finding = refused(engine_registry.start("openvino"), code, [STATE, TOTAL])
    assert finding.found.startswith("a graph that takes ")
