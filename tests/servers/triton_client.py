"""Calls by tritonclient to a server of the bundle `types`; run by an interpreter that has it.

Arguments: protocol (http or grpc), address.  Prints one line for each check that held.
"""

import importlib
import sys
from typing import Any

import ml_dtypes
import numpy as np

PROTOCOL, ADDRESS = sys.argv[1:]

tc = importlib.import_module(f"tritonclient.{PROTOCOL}")
Refused = importlib.import_module("tritonclient.utils").InferenceServerException

NAMES = {
    "bool": "BOOL",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
}
WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *WHOLE, "float16", "bfloat16", "float32", "float64"]

client = tc.InferenceServerClient(ADDRESS)


def dtype_of(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def attribute(document: Any, name: str) -> Any:
    return document[name] if isinstance(document, dict) else getattr(document, name)


def held(what: str, condition: object) -> None:
    assert condition, what
    print(what)


def tensor(name: str, datatype: str, array: Any, **options: Any) -> Any:
    given = tc.InferInput(name, array.shape, datatype)
    given.set_data_from_numpy(array, **options)
    return given


held("live", client.is_server_live())
held("ready", client.is_server_ready())
held("model ready", client.is_model_ready("types.rows"))
held("model of a version ready", client.is_model_ready("types.rows", "1.0.0"))
about = client.get_server_metadata()
held("metadata", attribute(about, "name") == "aotc")

for dtype in DTYPES:
    datatype = NAMES.get(dtype, dtype.upper())
    metadata = client.get_model_metadata(f"types.{dtype}")
    described = attribute(metadata, "inputs")[0]
    held(f"{datatype} in the metadata", attribute(described, "datatype") == datatype)
    limits = np.array([0, 1, 1, 0, 1, 1]).reshape(3, 2)
    array = limits.astype(dtype_of(dtype))
    if dtype.startswith(("int", "uint")):
        array[0] = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    elif dtype != "bool":
        array[0] = [np.nan, -np.inf]
    result = client.infer(f"types.{dtype}", [tensor("x", datatype, array)])
    y = result.as_numpy("y")
    held(f"{datatype} to the bit", y.dtype == array.dtype and y.tobytes() == array.tobytes())
    held(f"{datatype} cut", result.as_numpy("z").tobytes() == array[:1].tobytes())
    wanted = [tc.InferRequestedOutput("z")]
    result = client.infer(f"types.{dtype}", [tensor("x", datatype, array)], outputs=wanted)
    held(f"{datatype} one output", result.as_numpy("y") is None)

x, y = np.arange(24, dtype=np.float32).reshape(6, 4), np.ones((6, 4), np.float32)
inputs = [tensor("x", "FP32", x), tensor("y", "FP32", y)]
result = client.infer("types.rows", inputs, request_id="7")
held("split", (result.as_numpy("result") == x * 2 + y).all())
response = result.get_response()
held("id", attribute(response, "id") == "7")
parameters = attribute(response, "parameters")
path = parameters["path"]
held("path", (path if isinstance(path, str) else path.string_param) == "split")

if PROTOCOL == "http":
    plain = {"binary_data": False}
    wanted = [tc.InferRequestedOutput("result", **plain)]
    inputs = [tensor("x", "FP32", x, **plain), tensor("y", "FP32", y, **plain)]
    result = client.infer("types.rows", inputs, outputs=wanted)
    held("JSON", (result.as_numpy("result") == x * 2 + y).all())

index = client.get_model_repository_index()
rows = index if isinstance(index, list) else index.models
held("index", "types.rows" in {attribute(row, "name") for row in rows})


def refused(what: str, code: str, status: str, call: Any) -> None:
    try:
        call()
    except Refused as error:
        assert code in str(error) and error.status() == status, (what, str(error))
        print(what)
    else:
        raise AssertionError(what)


def status(http: str, grpc: str) -> str:
    return http if PROTOCOL == "http" else f"StatusCode.{grpc}"


BAD, NONE = status("400", "INVALID_ARGUMENT"), status("404", "NOT_FOUND")
refused("no model", "AOTC-E762", NONE, lambda: client.infer("nope", inputs))
refused("no version", "AOTC-E762", NONE, lambda: client.infer("types.rows", inputs, "2"))
short = [tensor("x", "FP32", x[:, :3]), tensor("y", "FP32", y)]
refused("a shape", "AOTC-E612", BAD, lambda: client.infer("types.rows", short))
other = [tensor("x", "FP64", x.astype(np.float64)), tensor("y", "FP32", y)]
refused("a datatype", "AOTC-E606", BAD, lambda: client.infer("types.rows", other))
refused("one input", "AOTC-E761", BAD, lambda: client.infer("types.rows", inputs[:1]))
big = np.zeros((2**16, 4), np.float32)
large = [tensor("x", "FP32", big), tensor("y", "FP32", big[:1])]
SIZE = status("413", "RESOURCE_EXHAUSTED")
refused("a size", "AOTC-E763", SIZE, lambda: client.infer("types.rows", large))

client.unload_model("types.rows")
refused("unloaded", "AOTC-E762", NONE, lambda: client.infer("types.rows", inputs))
client.load_model("types.rows")
inputs = [tensor("x", "FP32", x), tensor("y", "FP32", y)]
result = client.infer("types.rows", inputs)
held("loaded again", (result.as_numpy("result") == x * 2 + y).all())
refused(
    "a bundle from the client",
    "AOTC-E767",
    status("501", "UNIMPLEMENTED"),
    lambda: client.load_model("types.rows", config="{}"),
)
client.close()
