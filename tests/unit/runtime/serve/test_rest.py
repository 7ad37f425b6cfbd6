"""The Open Inference Protocol over HTTP, spoken to a server in a process of its own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import Served, binary_request, serving

from aotc.commands.profiles.traffic_log import read_traffic
from aotc_runtime import LoadedBundle
from tests.conftest import Bundle

RANDOM = np.random.default_rng(1)


def image(rows: int) -> np.ndarray[Any, Any]:
    return RANDOM.random((rows, 64), np.float32)


def test_it_says_what_it_is(served: Served) -> None:
    status, document = served.get("/v2")
    assert status == 200 and document["name"] == "aotc"
    assert document["extensions"] == ["binary_tensor_data", "model_repository"]
    assert served.get("/v2/health/live") == (200, {"live": True})
    assert served.get("/v2/health/ready") == (200, {"ready": True})
    assert served.get("/v2/models/digits/shapes")[0] == 404, "without --shapes"


def test_shapes_of_calls_are_a_log_for_profiles_suggest(
    digits_bundle: Bundle, tmp_path: Path
) -> None:
    with serving(digits_bundle[:1], digits_bundle[1:], "--shapes") as server:
        for rows in (8, 3, 8, 1):
            status = server.infer("digits", {"image": ("FP32", image(rows))})[0]
            assert status == (400 if rows == 3 else 200)
        assert server.get("/v2/models/digit/shapes")[1]["code"] == "AOTC-E762"
        assert server.post("/v2/models/digits/shapes")[0] == 405
        status, _, data = server.ask("GET", "/v2/models/digits/shapes")
    assert status == 200
    (tmp_path / "shapes").write_bytes(data)
    found = read_traffic(tmp_path / "shapes", "predict", ["batch"])
    assert (found.points.tolist(), found.counts.tolist()) == ([[1], [3], [8]], [1, 1, 2])


def test_metadata_tell_tensors_versions_and_profiles(served: Served) -> None:
    _, document = served.get("/v2/models/encoder")
    # The mask is not among them: the loader passes it.
    assert document["inputs"] == [{"name": "tokens", "datatype": "INT32", "shape": [-1, -1]}]
    assert document["versions"] == ["1.0.0"]
    facts = document["parameters"]
    assert {"batch": 4, "seq": 16} in facts["profiles"]
    assert facts["out_of_profile"] == {"batch": "split", "seq": "pad"}
    assert served.get("/v2/models/encoder/versions/1.0.0")[0] == 200


def test_a_bundle_of_several_entry_points_is_several_models(served: Served) -> None:
    _, rows = served.post("/v2/repository/index")
    names = {row["name"]: row["state"] for row in rows}
    assert names == dict.fromkeys(
        ["digits", "encoder", "train.init", "train.train_step", "train.evaluate"], "READY"
    )
    assert served.get("/v2/models/digits.predict/ready")[1]["name"] == "digits"
    status, document = served.get("/v2/models/train")
    assert (status, document["code"]) == (404, "AOTC-E762")


@pytest.mark.parametrize("name", ["digits", "digits.predict", "digits/versions/1.0.0"])
def test_binary_answers_equal_the_calls(served: Served, digits: LoadedBundle, name: str) -> None:
    for rows in (1, 8, 64):
        x = image(rows)
        expected = digits["predict"](x)
        status, document, outputs = served.infer(name, {"image": ("FP32", x)}, id="a")
        assert status == 200 and document["id"] == "a" and document["model_version"] == "1.0.0"
        assert document["parameters"] == {"profile": f"predict[batch={rows}]", "path": "exact"}
        for key, array in expected.items():
            assert outputs[key] == array.tobytes()


def test_json_answers_are_the_calls_to_the_bit(served: Served, digits: LoadedBundle) -> None:
    x = image(1)
    given = {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": x.tolist()}
    status, document = served.post(
        "/v2/models/digits/infer", {"inputs": [given], "outputs": [{"name": "probabilities"}]}
    )
    assert status == 200
    (output,) = document["outputs"]
    assert (output["datatype"], output["shape"]) == ("FP32", [1, 10])
    expected = digits["predict"](x)["probabilities"]
    assert np.array(output["data"], np.float32).tobytes() == expected.tobytes()


def test_a_padded_and_a_split_call_say_so(served: Served) -> None:
    tokens = RANDOM.integers(0, 100, (5, 12)).astype(np.int32)
    inputs = {"tokens": ("INT32", tokens)}
    status, document, _ = served.infer("encoder", inputs)
    assert status == 200
    assert document["parameters"]["path"] == "split"
    assert document["parameters"]["profile"] == "encode[batch=4,seq=16]"
    _, document, _ = served.infer("encoder", {"tokens": ("INT32", tokens[:4])})
    assert document["parameters"]["path"] == "pad"


def test_structures_are_tensors_named_by_their_paths(served: Served) -> None:
    status, document, state = served.infer(
        "train.init", {"seed": ("UINT32", np.uint32(3).reshape(()))}
    )
    assert status == 200
    x = RANDOM.random((64, 64), np.float32)
    y = RANDOM.integers(0, 10, 64).astype(np.int32)
    inputs: dict[str, tuple[str, Any]] = {"batch/image": ("FP32", x), "batch/label": ("INT32", y)}
    for output in document["outputs"]:
        dtype = {"FP32": np.float32, "INT32": np.int32}[output["datatype"]]
        array = np.frombuffer(state[output["name"]], dtype).reshape(output["shape"])
        inputs[f"state/{output['name']}"] = (output["datatype"], array)
    status, document, stepped = served.infer("train.train_step", inputs)
    assert status == 200 and stepped["0/step"] == np.int32(1).tobytes()


def request(**change: Any) -> dict[str, Any]:
    tensor = {"name": "image", "shape": [1, 64], "datatype": "FP32", "data": [0.5] * 64}
    return {"inputs": [tensor | change]}


@pytest.mark.parametrize("name", ["id", "parameters", "outputs"])
def test_null_is_as_good_as_nothing(name: str, served: Served) -> None:
    status, document = served.post("/v2/models/digits/infer", request() | {name: None})
    expected = served.post("/v2/models/digits/infer", request())
    assert (status, document) == expected and status == 200
    assert served.post("/v2/models/digits/infer", request(parameters=None)) == expected


X = {"inputs": [{"name": "image", "shape": [1, 64], "datatype": "FP32"}]}

REFUSED: dict[str, tuple[str, Any, int, str]] = {
    "no such model": ("nope", request(), 404, "AOTC-E762"),
    "no such version": ("digits/versions/9", request(), 404, "AOTC-E762"),
    "another datatype": ("digits", request(datatype="FP64"), 400, "AOTC-E606"),
    "an unknown datatype": ("digits", request(datatype="X"), 400, "AOTC-E606"),
    "another name": ("digits", request(name="images"), 400, "AOTC-E761"),
    "no tensor": ("digits", {"inputs": []}, 400, "AOTC-E761"),
    "a tensor twice": ("digits", {"inputs": request()["inputs"] * 2}, 400, "AOTC-E761"),
    "neither data nor size": ("digits", X, 400, "AOTC-E761"),
    "no such output": ("digits", request() | {"outputs": [{"name": "x"}]}, 400, "AOTC-E761"),
    "no profile": ("digits", request(shape=[2, 64], data=[0] * 128), 400, "AOTC-E611"),
    "another fixed size": ("digits", request(shape=[1, 63], data=[0] * 63), 400, "AOTC-E612"),
    "another rank": ("digits", request(shape=[64]), 400, "AOTC-E612"),
    "outside of the range": (
        "digits", request(shape=[65, 64], data=[0] * 65 * 64), 400, "AOTC-E613",
    ),
    "a negative axis": ("digits", request(shape=[-1, 64]), 400, "AOTC-E761"),
    "binary that is not there": (
        "digits",
        {"inputs": [{**X["inputs"][0], "parameters": {"binary_data_size": 256}}]},
        400,
        "AOTC-E761",
    ),
    "shared memory": (
        "digits", request(parameters={"shared_memory_region": "r"}), 501, "AOTC-E767",
    ),
    "too large a tensor": ("digits", request(shape=[2**20, 64], data=[]), 413, "AOTC-E763"),
    "no request": ("digits", [1, 2], 400, "AOTC-E761"),
    "an unknown field": ("digits", request() | {"x": 1}, 400, "AOTC-E761"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "document", "status", "code"), REFUSED.values(), ids=REFUSED)
def test_unfit_request(served: Served, model: str, document: Any, status: int, code: str) -> None:
    found, answer = served.post(f"/v2/models/{model}/infer", document)
    assert (found, answer["code"]) == (status, code)
    assert answer["error"].startswith(code) and "Traceback" not in answer["error"]
    assert served.get("/v2/health/ready")[0] == 200


LENGTH = "Inference-Header-Content-Length"

LIES: dict[str, tuple[bytes, dict[str, str], str]] = {
    "a header length beyond the body": (b"{}", {LENGTH: "99"}, "AOTC-E761"),
    "a negative header length": (b"{}", {LENGTH: "-1"}, "AOTC-E761"),
    "a header length of digits without end": (
        b"{}", {LENGTH: "9" * 5000}, "AOTC-E761",
    ),
    "no JSON": (b"\xff\xfe", {}, "AOTC-E761"),
    "nothing": (b"", {}, "AOTC-E761"),
    "lists without end": (b'{"inputs":' + b"[" * 100_000, {}, "AOTC-E761"),
    "compressed": (b"x", {"Content-Encoding": "gzip"}, "AOTC-E767"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "headers", "code"), LIES.values(), ids=LIES)
def test_lying_body(served: Served, body: bytes, headers: dict[str, str], code: str) -> None:
    _, _, data = served.ask("POST", "/v2/models/digits/infer", body, headers)
    assert json.loads(data)["code"] == code


@pytest.mark.parametrize("change", [-4, 4, 10**9, -256, "256", 256.0, True])
def test_a_tensor_whose_size_lies_is_refused(served: Served, change: Any) -> None:
    header, data = binary_request({"image": ("FP32", image(1))})
    document = json.loads(header)
    lied = 256 + change if type(change) is int else change
    document["inputs"][0]["parameters"]["binary_data_size"] = lied
    header = json.dumps(document).encode()
    headers = {LENGTH: str(len(header))}
    status, _, answer = served.ask("POST", "/v2/models/digits/infer", header + data, headers)
    assert (status, json.loads(answer)["code"]) == (400, "AOTC-E761")


def test_bytes_behind_the_last_tensor_are_refused(served: Served) -> None:
    header, data = binary_request({"image": ("FP32", image(1))})
    headers = {LENGTH: str(len(header))}
    status, _, _ = served.ask("POST", "/v2/models/digits/infer", header + data + b"x", headers)
    assert status == 400


def test_metrics_of_the_loader_and_of_the_server_stand_in_one_page(served: Served) -> None:
    served.infer("digits", {"image": ("FP32", image(8))})
    text = served.ask("GET", "/metrics")[2].decode()
    assert 'aotc_server_request_seconds_count{code="",model="digits",protocol="rest"}' in text
    assert 'executable="predict[batch=8]"' in text and "aotc_server_connections " in text
    assert "aotc_server_in_flight_bytes 0.0" in text


def test_nobody_loads_or_unloads_where_that_was_not_allowed(served: Served) -> None:
    for what in ("load", "unload"):
        status, document = served.post(f"/v2/repository/models/digits/{what}")
        assert (status, document["code"]) == (403, "AOTC-E768")
    assert served.get("/v2/models/digits/ready")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "title"),
    [("GET", "/", 404, "URL path not found"), ("PUT", "/v2", 405, "URL path takes another method")],
)
def test_other_addresses_are_json(
    served: Served, method: str, path: str, status: int, title: str
) -> None:
    found, _, data = served.ask(method, path)
    refused = json.loads(data)
    assert (found, refused["code"]) == (status, "AOTC-E762")
    assert refused["findings"][0]["title"] == title
