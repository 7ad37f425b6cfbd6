"""Builds of ONNX models: an example, references that are recorded anew, the order of weights, and
what a second build does.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

import onnx
from onnx import helper

import aotc_runtime
from aotc.capture.model_entry_points import open_models
from aotc.capture.weight_layouts import laid_out
from aotc.commands.record_expected import model_recorder
from aotc.commands.record_expected.recording_process import record
from aotc.config.build_manifest import read_build_manifest
from tests.conftest import manifest_of
from tests.e2e.rebuilt_models import Rebuilt, packages, ran
from tests.e2e.small_programs import build_trusted
from tests.frontends.onnx_files.making import FLOAT, INT64, graph, model, read, simple, value

MANIFESTS = Path(__file__).parents[3] / "manifests"
BERT = MANIFESTS / "bert"
N = helper.make_node


def test_a_bert_answers_as_pytorch_does(built: Callable[[str], tuple[Path, Path]]) -> None:
    bundle, policy = built("bert")
    inputs, expected = np.load(BERT / "inputs.npz"), np.load(BERT / "expected.npz")
    loaded = aotc_runtime.load(bundle, trust=policy)
    found = loaded["encode"](inputs["input_ids"], inputs["attention_mask"])["pooled"]
    np.testing.assert_allclose(found, expected["pooled[batch=4]"], rtol=1e-5, atol=1e-6)
    loaded.close()


def test_onnxruntime_gives_what_pytorch_gave() -> None:
    pytest.importorskip("onnxruntime")
    recorded = record(MANIFESTS / "bert.toml", None, Path(sys.executable))
    assert recorded.framework.startswith("onnxruntime ")
    expected = np.load(BERT / "expected.npz")
    assert recorded.arrays.keys() == {*expected.files}
    for name, array in recorded.arrays.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_the_array_below_a_map_of_columns_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    labels = {"classlabels_int64s": [2, 0, 1], "domain": "ai.onnx.ml"}
    nodes = [N("Relu", ["x"], ["scores"]), N("ZipMap", ["scores"], ["y"], **labels)]
    of = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
    y = helper.make_value_info("y", helper.make_sequence_type_proto(of))
    made = model(graph(nodes, [value("x")], [y]), opsets={"": 20, "ai.onnx.ml": 3})
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    _, run = model_recorder._onnx(str(path))
    assert np.array_equal(run({"x": x})["y"], read(made).function({}, x)["y"])


MANIFEST = manifest_of("""
name = "m"

[entry_points.m]
source = "m.onnx"
""")


def test_kernels_of_convolutions_change_layout_and_other_weights_do_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {
        "kernel": rng.normal(size=(5, 3, 2, 4)).astype(np.float32),
        "table": rng.normal(size=(1, 1, 8, 6)).astype(np.float32),
        "grown": rng.normal(size=(5, 7, 3, 2)).astype(np.float32),
    }
    nodes = [
        N("Conv", ["x", "kernel"], ["a"]),
        N("Add", ["a", "table"], ["b"]),
        N("ConvTranspose", ["b", "grown"], ["y"]),
    ]
    made = simple(nodes, (1, 3, 9, 9), **given)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (tmp_path / "m.toml").write_text(MANIFEST)
    models = laid_out(open_models(read_build_manifest(tmp_path / "m.toml")), {"m": {}})
    opened = models.opened["m"]
    assert opened.orders["kernel"] == (2, 3, 1, 0)  # height, width, in, out
    assert "table" not in opened.orders
    stored = opened.model.weights
    assert np.array_equal(stored["kernel"], given["kernel"].transpose(2, 3, 1, 0))
    assert np.array_equal(stored["table"], given["table"])
    x = rng.normal(size=(1, 3, 9, 9)).astype(np.float32)
    plain = open_models(read_build_manifest(tmp_path / "m.toml")).opened["m"].model
    found = opened.model.function(dict(stored), x)["y"]
    np.testing.assert_allclose(found, plain.function(dict(plain.weights), x)["y"], rtol=1e-5)


TURNED = """
name = "turned"
engines = ["onnxruntime"]
precision.small.weights = "int8"
entry_points.turned.source = "network.onnx"
entry_points.turned.precision = "small"
entry_points.turned.inputs.x = { shape = [2, 3, 48, 192], dtype = "float32" }
entry_points.turned.fixtures.ranges = { x = [-1, 1] }
entry_points.turned.evaluation = { data = "a.npz", metric = "top1", max_drop = 0.05 }
"""


def test_a_trained_network_reads_a_photograph_in_8_bits(tmp_path: Path) -> None:
    names = ("rapidocr_onnxruntime", "skimage", "PIL.Image")
    ocr, skimage, image = (pytest.importorskip(name) for name in names)
    network = Path(ocr.__file__).parent / "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
    (tmp_path / "network.onnx").write_bytes(network.read_bytes())
    page = image.open(Path(skimage.__file__).parent / "data/page.png").convert("L")
    corners = [(x, y) for y in (49, 66, 85, 101, 119) for x in range(6, 300, 40)]
    parts = [page.crop((x, y, x + 64, y + 16)).rotate(a) for x, y in corners for a in (0, 180)]
    numbers = [np.asarray(each.resize((192, 48)), np.float32) / 127.5 - 1 for each in parts]
    x = np.stack(numbers)[:, None].repeat(3, 1)
    np.savez(tmp_path / "a.npz", x=x, target=np.tile([0, 1], len(corners)))
    (tmp_path / "m.toml").write_text(manifest_of(TURNED))
    made, policy = build_trusted(tmp_path / "m.toml", tmp_path / "m.aotb"), tmp_path / "trust.toml"
    policy.write_text(policy.read_text() + '\n[metrics]\n"turned.top1" = 0.85\n')
    (target,) = made.bundle.manifests.values()
    assert "int8" in {each.dtype for each in target.weights["turned"].tensors}
    aotc_runtime.load(tmp_path / "m.aotb", trust=policy).close()


W = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)


def test_second_build_only_traces_until_a_byte_changes(tmp_path: Path) -> None:
    made = simple([N("MatMul", ["x", "w"], ["y"], "product")], (4, 8), w=W)
    onnx.external_data_helper.convert_model_to_external_data(made, location="w", size_threshold=0)
    onnx.save(made, tmp_path / "model.onnx")
    data = tmp_path / "w"
    assert data.stat().st_size >= W.nbytes
    model = Rebuilt(tmp_path, "model.onnx", (tmp_path / "model.onnx").read_bytes())
    first = model.build()
    assert {"onnx", "protobuf"} <= packages(first)
    assert ran(model.build()).keys() == {"capture", "pack"}
    model.replace(data, W.tobytes()[:8], W.tobytes()[:7] + b"\x3f")
    beside = model.build()
    assert ran(beside)["capture"] == ("file w changed",)
    assert beside.bundle.root_digest != first.bundle.root_digest
    model.replace(model.file, b"product", b"produce")
    assert ran(model.build())["capture"] == ("file model.onnx changed",)
    model.tighten()
    assert "parity of cpu-x86-64-v3" in ran(model.build())
