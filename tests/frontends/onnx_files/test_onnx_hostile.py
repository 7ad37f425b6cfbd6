"""Files that are damaged or malicious: one coded error, nothing executed, memory bounded."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from onnx import ModelProto, SparseTensorProto, TensorProto, helper

from aotc.frontends.onnx import onnx_graph_reader, onnx_wire
from aotc_runtime.formats.protobuf_wire import WireError
from tests.frontends.onnx_files.making import (
    FLOAT,
    INT64,
    codes,
    graph,
    model,
    read,
    refused,
    run,
    simple,
    value,
)

N = helper.make_node
X = np.ones((2, 3), np.float32)
ADD = N("Add", ["x", "w"], ["y"], "add")
W = np.ones((2, 3), np.float32)


def tensor(name: str = "w", dims: Any = (2, 3), kind: int = FLOAT, **fields: Any) -> Any:
    made = TensorProto(name=name, data_type=kind, dims=dims)
    for field, content in fields.items():
        if isinstance(content, list):
            getattr(made, field).extend(content)
        else:
            setattr(made, field, content)
    return made


def external(location: str, offset: str = "0", length: str = "24") -> Any:
    made = tensor(data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        made.external_data.add(key=key, value=text)
    return made


def message(number: int, content: bytes) -> bytes:
    """A field of a message, as protobuf writes it."""
    length, tag = len(content), bytes([number << 3 | 2])
    while length >= 128:
        tag, length = tag + bytes([length & 0x7F | 0x80]), length >> 7
    return tag + bytes([length]) + content


def test_a_model_that_is_not_hostile_is_read_and_computes() -> None:
    assert np.array_equal(run(simple([ADD], w=W), X)["y"], X + W)


@pytest.mark.parametrize("part", range(1, 10))
def test_a_truncated_file_is_refused(part: int) -> None:
    data = simple([ADD], w=W).SerializeToString()
    assert codes(refused(data[: len(data) * part // 10])) == ["AOTC-E843"]


def test_every_flipped_byte_is_refused_with_a_code_or_leaves_a_model() -> None:
    data = simple([ADD, N("Relu", ["y"], ["z"])], w=W).SerializeToString()
    for at in range(len(data)):
        for flip in (0xFF, 0x80, 0x01):
            damaged = bytearray(data)
            damaged[at] ^= flip
            try:
                read(bytes(damaged))
            except Exception as error:  # noqa: BLE001 - the claim is about all of them
                assert getattr(error, "findings", None), (at, flip, repr(error))


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", b"\x80\x04K\x01.", b"\x0a\xff\xff\xff\xff\x7f", b"\x08\x07", b"a" * 99],
    ids=["empty", "zip", "pickle", "length", "no graph", "text"],
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    assert codes(refused(data)) == ["AOTC-E843"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x08\xff",
        b"\x3a\x05",
        b"\x0b",
        b"\x0d\x00\x00",
        b"\x3a\x02\x0d\x00\x00\x00\x00",
        message(2, b"a\xff"),
    ],
    ids=["long number", "number", "length", "kind", "field", "field in a message", "text"],
)
def test_the_walk_finds_what_is_wrong_without_the_parser(data: bytes) -> None:
    with pytest.raises(WireError):
        onnx_wire.walk(data, ModelProto.DESCRIPTOR)


def test_surplus_fields_are_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_wire, "FIELDS", 1000)
    node = b"\x0a\x00"  # an empty node, of which a parser makes an object
    body = node * 2000
    data = b"\x08\x0a\x3a" + bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) + body
    error = refused(data)
    assert codes(error) == ["AOTC-E843"]
    assert "fields" in error.findings[0].found


@pytest.mark.parametrize("levels", [20, 1000])
def test_graphs_within_graphs_without_end_are_refused(levels: int) -> None:
    inner = message(1, message(4, b"Relu"))
    for _ in range(levels):
        attribute = message(1, b"body") + b"\xa0\x01\x05" + message(6, inner)
        inner = message(1, message(4, b"Loop") + message(5, attribute))
    error = refused(b"\x08\x0a" + message(7, inner) + message(8, b"\x10\x14"))
    assert codes(error)[0] == "AOTC-E843" or levels == 20
    assert ("nested" in error.findings[0].found) == (levels == 1000)


@pytest.mark.parametrize(
    "location",
    ["/etc/passwd", "../secret", "a/../../b", "a\\..\\..\\b", "C:\\x", "", "\\\\host\\x", "a\x1bb"],
)
def test_data_outside_the_models_folder_are_refused_unasked(location: str) -> None:
    made = simple([ADD], w=external(location))
    asked: list[str] = []

    class Files(dict[str, bytes]):
        def __contains__(self, name: object) -> bool:
            asked.append(str(name))
            return True

        def __getitem__(self, name: str) -> bytes:
            return bytes(24)

    assert codes(refused(made, beside=Files())) == ["AOTC-E843"]
    assert not asked


def test_external_data_within_the_folder_are_read() -> None:
    made = simple([ADD], w=external("data/weights.bin", "8"))
    got = read(made, beside={"data/weights.bin": bytes(8) + W.tobytes()})
    assert np.array_equal(got.weights["w"], W)


def test_a_file_that_holds_many_tensors_is_read_once() -> None:
    asked: list[str] = []

    class Files(dict[str, bytes]):
        def __contains__(self, name: object) -> bool:
            asked.append(str(name))
            return super().__contains__(name)

    nodes = [ADD, N("Add", ["y", "v"], ["z"])]
    made = simple(nodes, w=external("w.bin"), v=external("w.bin"))
    made.graph.initializer[1].name = "v"
    made.graph.output[0].name = "z"
    assert sorted(read(made, beside=Files({"w.bin": W.tobytes()})).weights) == ["v", "w"]
    assert asked == ["w.bin"]


@pytest.mark.parametrize(
    ("offset", "length"), [("8", "24"), ("-1", "24"), ("0", "25"), ("x", "24"), ("9" * 30, "24")]
)
def test_external_data_beyond_their_file_are_refused(offset: str, length: str) -> None:
    made = simple([ADD], w=external("w.bin", offset, length))
    assert codes(refused(made, beside={"w.bin": bytes(24)})) == ["AOTC-E843"]


@pytest.mark.parametrize(
    "wrong",
    [
        tensor(dims=(1 << 60,), raw_data=bytes(4)),
        tensor(dims=(1 << 60, 1 << 60, 1 << 60), raw_data=bytes(4)),
        tensor(dims=(-1, 3), raw_data=bytes(24)),
        tensor(dims=(-2, -3), raw_data=bytes(24)),
        tensor(raw_data=bytes(20)),
        tensor(float_data=[1.0] * 5),
        tensor(dims=(1 << 60,)),
        tensor(kind=99, raw_data=bytes(24)),
        tensor(kind=0, raw_data=bytes(24)),
        tensor(kind=TensorProto.BOOL, raw_data=b"\x02" * 6),
        tensor(kind=TensorProto.INT4, raw_data=bytes(4)),
        tensor("w\x1b[2J", raw_data=bytes(24)),
        tensor("", raw_data=bytes(24)),
    ],
    ids=lambda made: f"{made.name!r} {made.data_type} {list(made.dims)} {len(made.raw_data)}",
)
def test_tensors_whose_bytes_are_not_those_of_their_shape_are_refused(wrong: Any) -> None:
    tracemalloc.start()
    try:
        assert codes(refused(simple([ADD], w=wrong))) == ["AOTC-E843"]
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_tensors_in_forms_that_are_not_read_are_refused() -> None:
    parts = tensor(raw_data=W.tobytes())
    parts.segment.begin = 0
    assert codes(refused(simple([ADD], w=parts))) == ["AOTC-E844"]
    sparse = SparseTensorProto(dims=[2, 3])
    made = simple([ADD], w=W)
    made.graph.sparse_initializer.append(sparse)
    assert codes(refused(made)) == ["AOTC-E844"]
    node = N("Constant", [], ["y"])
    node.attribute.append(helper.make_attribute("sparse_value", sparse))
    assert codes(refused(simple([node]))) == ["AOTC-E844"]


@pytest.mark.parametrize(
    "nodes",
    [
        [N("Add", ["x", "z"], ["y"]), N("Relu", ["y"], ["z"])],
        [N("Relu", ["y"], ["y"])],
        [N("Relu", ["nothing"], ["y"])],
        [N("Relu", ["x"], ["y"]), N("Relu", ["x"], ["y"])],
        [N("Relu", ["x"], ["x"])],
        [N("Relu", ["x"], ["other"])],
        [N("Relu", ["x"], ["y\n"])],
        [N("Relu", ["x"], ["y"], "\x1b]0;title\x07")],
        [N("Relu\x00", ["x"], ["y"])],
    ],
    ids=[
        *("cycle", "itself", "undefined", "twice", "input", "no output", "newline", "escape"),
        "operator",
    ],
)
def test_edges_that_lead_nowhere_and_names_that_are_no_text_are_refused(nodes: list[Any]) -> None:
    error = refused(simple(nodes, w=W))
    assert codes(error) == ["AOTC-E843"]
    assert str(error).isprintable() or "\x1b" not in str(error)


def _twice(field: str) -> Any:
    def change(made: Any) -> None:
        held = getattr(made.graph, field)
        held.append(held[0])

    return change


def _attribute(**fields: Any) -> Any:
    def change(made: Any) -> None:
        made.graph.node[0].attribute.add(**fields)

    return change


def _attribute_twice(made: Any) -> None:
    for _ in range(2):
        made.graph.node[0].attribute.add(name="a", type=2, i=1)


def _function(change: str) -> Any:
    def apply(made: Any) -> None:
        made.CopyFrom(doubling(1))
        if change == "input":
            made.functions[0].input.append(made.functions[0].input[0])
        elif change == "output":
            made.functions[0].output[0] = "nothing"
        else:
            made.functions.append(made.functions[0])

    return apply


@pytest.mark.parametrize(
    "change",
    [
        _twice("input"),
        _twice("initializer"),
        _attribute(name="a"),
        _attribute_twice,
        _function("input"),
        _function("output"),
        _function("function"),
    ],
    ids=["input", "initializer", "type", "attribute", "parameter", "result", "function"],
)
def test_what_is_there_twice_or_lacks_in_a_graph_or_a_function_is_refused(change: Any) -> None:
    made = simple([ADD], w=W)
    change(made)
    assert codes(refused(made)) == ["AOTC-E843"]


def bomb(node: Any, **given: Any) -> Any:
    return refused(simple([node], **given), X)


HUGE = np.array([1 << 30, 1 << 30], np.int64)


@pytest.mark.parametrize(
    ("node", "given"),
    [
        (N("ConstantOfShape", ["s"], ["y"]), {"s": HUGE}),
        (N("ConstantOfShape", ["s"], ["y"]), {"s": -HUGE}),
        (N("Expand", ["e", "s"], ["y"]), {"s": HUGE, "e": W[:1, :1]}),
        (N("Tile", ["x", "s"], ["y"]), {"s": HUGE}),
        (N("Pad", ["x", "s"], ["y"]), {"s": np.array([1 << 40, 1 << 40, 0, 0])}),
        (
            N("Range", ["a", "b", "c"], ["y"]),
            {"a": np.array(0), "b": np.array(1 << 62), "c": np.array(1)},
        ),
        (
            N("Range", ["a", "b", "c"], ["y"]),
            {"a": np.array(0), "b": np.array((1 << 33) + 1), "c": np.array(1)},
        ),
        (N("Expand", ["e", "s"], ["y"]), {"s": np.array([10**6, 100, 100, 4]), "e": W[:1, :1]}),
        (
            N("Conv", ["e", "k"], ["y"], pads=[2**20] * 4),
            {"e": np.ones((1, 1, 4, 4), np.float32), "k": np.ones((1, 1, 1, 1), np.float32)},
        ),
        (
            N("OneHot", ["i", "d", "v"], ["y"]),
            {"i": np.zeros(9, np.int64), "d": np.array(1 << 50), "v": W[0, :2]},
        ),
        (N("HannWindow", ["d"], ["y"]), {"d": np.array(1 << 50)}),
    ],
    ids=lambda made: getattr(made, "op_type", ""),
)
def test_arrays_that_no_machine_holds_are_refused_and_not_made(node: Any, given: Any) -> None:
    tracemalloc.start()
    try:
        error = bomb(node, **given)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert codes(error) == ["AOTC-E843"]


def doubling(levels: int, *, cycle: bool = False) -> Any:
    made = simple([N("F0", ["x"], ["y"], domain="own")])
    made.opset_import.add(domain="own", version=1)
    for level in range(levels):
        last = level == levels - 1
        name, domain = (f"F{level + 1}", "own") if not last else ("Relu", "")
        if last and cycle:
            name, domain = "F0", "own"
        nodes = [N(name, ["a"], ["b"], domain=domain), N(name, ["b"], ["c"], domain=domain)]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
        made.functions.append(helper.make_function("own", f"F{level}", ["a"], ["c"], nodes, opsets))
    return made


def test_functions_of_the_model_are_computed() -> None:
    assert np.array_equal(run(doubling(3), -X)["y"], X * 0)


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "a name that is no text": (
        simple([ADD], w=W).SerializeToString().replace(b"add", b"a\xffd"),
        (),
        "AOTC-E843",
    ),
    "texts as tensors": (
        simple([ADD], w=tensor(kind=TensorProto.STRING, string_data=[b"a"] * 6)),
        (),
        "AOTC-E844",
    ),
    "operands of two types": (simple([ADD], w=np.ones((2, 3), np.int32)), (X,), "AOTC-E843"),
    "a missing attribute": (simple([N("Concat", ["x"], ["y"])]), (X,), "AOTC-E843"),
    "functions that call themselves": (doubling(2, cycle=True), (), "AOTC-E843"),
    "functions of more nodes than a model has": (doubling(40), (), "AOTC-E843"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_with_a_code(name: str) -> None:
    made, inputs, code = REFUSED[name]
    assert codes(refused(made, *inputs)) == [code]


def loop(trips: int, body: Any, name: str = "trips") -> Any:
    node = N("Loop", [name, "", "x"], ["y"], body=body)
    return simple([node], **{name: np.array(trips)})


def stepping(*nodes: Any, result: str = "b") -> Any:
    yes = N("Identity", ["c"], ["d"])
    inputs = [value("i", (), INT64), value("c", (), TensorProto.BOOL), value("a", None)]
    return graph([yes, *nodes], inputs, [value("d", (), TensorProto.BOOL), value(result, None)])


def test_a_loop_of_many_steps_is_one_scan() -> None:
    body = stepping(N("Add", ["a", "x"], ["b"]))
    assert np.array_equal(run(loop(1000, body), X)["y"], X * 1001)


def test_a_loop_whose_values_grow_is_refused_after_a_bounded_number_of_steps() -> None:
    body = stepping(N("Concat", ["a", "a"], ["b"], axis=0))
    assert codes(refused(loop(1 << 62, body), X))[0] in ("AOTC-E843", "AOTC-E844")


def test_nested_loops_are_refused_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    from aotc.frontends.onnx import onnx_evaluation

    monkeypatch.setattr(onnx_evaluation, "NODES", 2000)
    monkeypatch.setattr(
        onnx_evaluation.Evaluation,
        "__init__",
        _with_nodes(onnx_evaluation.Evaluation.__init__, 2000),
    )
    inner = stepping(N("Relu", ["a"], ["b"]))
    for _ in range(6):
        trips = N("Constant", [], ["n"], value_int=12)
        node = N("Loop", ["n", "", "a"], ["b"], body=inner)
        inner = stepping(trips, node)
    assert codes(refused(loop(12, inner), X)) == ["AOTC-E843"]


def _with_nodes(made: Any, nodes: int) -> Any:
    def initialize(self: Any, *given: Any) -> None:
        made(self, *given)
        self.left = nodes

    return initialize


def test_a_trip_count_that_decides_how_much_is_stacked_has_to_be_known() -> None:
    body = stepping(N("Relu", ["a"], ["b"]))
    body.output.append(value("b", None))
    node = N("Loop", ["n", "", "x"], ["z", "y"], body=body)
    made = model(graph([node], [value("x"), value("n", (), INT64)], [value("y", None)]))
    assert codes(refused(made, X, np.array(3, np.int32))) == ["AOTC-E844"]


@pytest.mark.parametrize(
    "change",
    [
        {"nodes_truenodeids": [0, 0, 0]},
        {"nodes_truenodeids": [7, 0, 0]},
        {"nodes_featureids": [99, 0, 0]},
        {"nodes_featureids": [-1, 0, 0]},
        {"nodes_values": [0.0]},
        {"target_ids": [5, 0]},
        {"target_nodeids": [9, 2]},
        {"nodes_modes": ["NOTHING", "LEAF", "LEAF"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_trees_that_are_none_are_refused(change: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }

    def of(given: dict[str, Any]) -> Any:
        node = N("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **given)
        made = graph([node], [value("x")], [value("y", None)])
        return model(made, opsets={"": 20, "ai.onnx.ml": 3})

    assert run(of(fields), X)["y"].tolist() == [[2.0], [2.0]]
    assert codes(refused(of(fields | change), X)) == ["AOTC-E843"]


@pytest.mark.parametrize(
    ("field", "number"), [("ir_version", 0), ("ir_version", 999), ("opset", 999), ("opset", 6)]
)
def test_versions_that_are_not_known_are_refused(field: str, number: int) -> None:
    made = simple([ADD], w=W)
    if field == "opset":
        made.opset_import[0].version = number
    else:
        made.ir_version = number
    assert codes(refused(made)) == ["AOTC-E843"]


def test_everything_that_lacks_is_told_at_once_with_the_names_of_nodes() -> None:
    nodes = [
        N("NonMaxSuppression", ["x", "x"], ["a"], "first"),
        N("Fused", ["x"], ["b"], "second", domain="com.microsoft"),
        N("RandomNormalLike", ["x"], ["c"], "third"),
        N("Reshape", ["x", "s"], ["y"], "fourth"),
    ]
    inputs = [value("x"), value("s", (2,), INT64)]
    made = model(graph(nodes, inputs, [value("y", None)]), opsets={"": 20, "com.microsoft": 1})
    error = refused(made)
    assert set(codes(error)) == {"AOTC-E844"}
    for name in ("first", "second", "third", "fourth"):
        assert name in str(error)


@pytest.mark.parametrize(
    ("op", "hint"),
    [
        ("QLinearAdd", "QuantFormat.QDQ"),
        ("MatMulIntegerToFloat", "QuantFormat.QDQ"),
        ("DynamicQuantizeMatMul", "QuantFormat.QDQ"),
        ("QuantizeLinear", "opset 21"),
        ("BiasGelu", "before onnxruntime optimized it"),
    ],
)
def test_operators_of_onnxruntime_are_refused_with_what_to_do(op: str, hint: str) -> None:
    nodes = [N(op, ["x"], ["y"], "first", domain="com.microsoft")]
    opsets = {"": 20, "com.microsoft": 1}
    error = refused(model(graph(nodes, [value("x")], [value("y", None)]), opsets=opsets))
    assert codes(error) == ["AOTC-E844"] and hint in (error.findings[0].hint or "")


def test_a_signature_is_refused() -> None:
    assert codes(refused(simple([ADD], w=W), signature="serving_default")) == ["AOTC-E845"]


def test_limits_are_those_of_the_format() -> None:
    assert onnx_wire.DEPTH == 100, "what protobuf accepts"
    assert onnx_graph_reader.OPSETS[""][0] == 7
    assert ModelProto.DESCRIPTOR.full_name == "onnx.ModelProto"


@pytest.mark.parametrize("number", [-1, 0, 3, 2**31, 2**62])
def test_a_scan_over_another_number_of_inputs_is_refused_and_takes_no_memory(number: int) -> None:
    body = graph([N("Identity", ["r"], ["o"])], [value("r", (3,))], [value("o", None)])
    nodes = [N("Scan", ["x"], ["y"], body=body, num_scan_inputs=number)]
    tracemalloc.start()
    assert codes(refused(simple(nodes), X)) == ["AOTC-E843"]
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()
