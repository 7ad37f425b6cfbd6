"""Tests of a read model: inputs, weights, constants, ranges, narrowing, varying sizes."""

from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

from onnx import TensorProto, helper

from aotc.capture.line_coverage import layers
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

X = np.arange(6, dtype=np.float32).reshape(2, 3)
N = helper.make_node


def shape_arithmetic() -> Any:
    """x of (batch, seq, 6) to (batch, 2, seq, 3), as exporters write it."""
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "zero"], ["batch"]),
        N("Gather", ["shape", "one"], ["seq"]),
        N("Unsqueeze", ["batch", "first"], ["b"]),
        N("Unsqueeze", ["seq", "first"], ["s"]),
        N("Concat", ["b", "s", "rest"], ["target"], axis=0),
        N("Reshape", ["x", "target"], ["split"]),
        N("Transpose", ["split"], ["moved"], perm=[0, 2, 1, 3]),
        N("Range", ["zero", "seq", "one"], ["positions"]),
        N("Cast", ["positions"], ["floats"], to=FLOAT),
        N("Unsqueeze", ["floats", "last"], ["column"]),
        N("Add", ["moved", "column"], ["y"]),
    ]
    given = {
        "zero": np.array(0),
        "one": np.array(1),
        "first": np.array([0]),
        "last": np.array([-1]),
        "rest": np.array([2, 3]),
    }
    return simple(nodes, ("batch", "seq", 6), **given)


def test_shape_arithmetic_leaves_nothing_in_the_program() -> None:
    got = read(shape_arithmetic())
    x = np.arange(60, dtype=np.float32).reshape(2, 5, 6)
    text = str(jax.make_jaxpr(got.function)({}, x))
    assert "gather" not in text and "concatenate" not in text
    found = run(shape_arithmetic(), x)["y"]
    wanted = x.reshape(2, 5, 2, 3).transpose(0, 2, 1, 3) + np.arange(5)[:, None]
    assert np.array_equal(found, wanted)
    assert not got.weights


def test_equations_belong_to_nodes_by_their_names() -> None:
    nodes = [
        N("Gemm", ["x", "w"], ["h"], name="/encoder/dense"),
        N("Shape", ["h"], ["shape"]),
        N("LayerNormalization", ["h", "scale"], ["y"]),
    ]
    told = nodes[0].metadata_props.add()
    told.key = "pkg.torch.onnx.stack_trace"
    told.value = 'File "/home/me/net.py", line 7, in forward\n    return self.dense(x)'
    got = read(simple(nodes, w=np.ones((3, 4), np.float32), scale=np.ones(4, np.float32)))
    assert got.layers == {
        "/encoder/dense": ("me/net.py:7: return self.dense(x)",),
        "shape": (),
        "y": (),
    }
    jaxpr = jax.make_jaxpr(got.function)(dict(got.weights), X).jaxpr
    found = layers(jaxpr, got.layers)
    assert found["/encoder/dense"] >= 1 and found["y"] > 3
    assert found.keys() == {"/encoder/dense", "y"}, "a shape is known while tracing"


def test_sizes_that_vary_are_traced_once_for_all() -> None:
    got = read(shape_arithmetic())
    assert got.inputs[0].shape == ("batch", "seq", 6)
    assert got.ranges == {"batch": (None, None), "seq": (None, None)}
    shape = jax.export.symbolic_shape("batch,seq,6")
    exported = jax.export.export(jax.jit(got.function))({}, jax.ShapeDtypeStruct(shape, np.float32))
    assert str(exported.out_avals[0].shape) == "(batch, 2, seq, 3)"
    x = np.arange(24, dtype=np.float32).reshape(1, 4, 6)
    found = exported.call({}, x)["y"]
    assert np.array_equal(found, run(shape_arithmetic(), x)["y"])


def test_sizes_of_paddlepaddle_vary_each_by_itself() -> None:
    made = simple([N("Relu", ["x"], ["y"])], (-1, 3, "?", "?"))
    assert read(made).inputs[0].shape == (None, 3, None, None)
    assert codes(refused(simple([N("Relu", ["x"], ["y"])], (-2, 3)))) == ["AOTC-E843"]


def test_weights_are_what_is_large_and_decides_no_shape() -> None:
    nodes = [
        N("MatMul", ["x", "matrix"], ["a"]),
        N("Mul", ["a", "half"], ["b"]),
        N("Constant", [], ["bias"], value=helper.make_tensor("v", FLOAT, (4,), [1.0] * 4)),
        N("Add", ["b", "bias"], ["c"]),
        N("Resize", ["c", "", "scales"], ["d"], mode="nearest"),
        N("Gather", ["d", "table"], ["y"]),
    ]
    given = {
        "matrix": np.ones((3, 4), np.float32),
        "half": np.array(0.5, np.float32),
        "scales": np.array([1, 2], np.float32),
        "table": np.zeros(100, np.int64),
        "unused": np.ones(9, np.float32),
    }
    got = read(simple(nodes, **given))
    assert sorted(got.weights) == ["bias", "matrix", "table"]
    assert got.narrowed == ("table",) and got.weights["table"].dtype == np.int32
    found = jax.jit(got.function)(dict(got.weights), X)["y"]
    wanted = np.repeat(X @ given["matrix"] * 0.5 + 1, 2, 1)[np.zeros(100, int)]
    assert np.allclose(found, wanted)


def test_what_wrote_the_file_is_told() -> None:
    made = simple([N("Relu", ["x"], ["y"])])
    made.producer_name, made.producer_version = "pytorch", "2.13.0"
    assert read(made).producer == {
        "framework": "ONNX",
        "producer": "pytorch 2.13.0",
        "ir_version": "10",
        "opset": "ai.onnx 20",
    }


def test_whole_numbers_of_64_bits_become_those_of_32_where_they_fit() -> None:
    nodes = [N("Add", ["x", "one"], ["y"])]
    made = simple(nodes, (3,), kind=INT64, one=np.array(1))
    got = read(made)
    assert got.inputs[0].dtype == np.int64
    assert got.narrowed == ("x",)
    found = run(made, np.array([1, 2, 3], np.int32))["y"]
    assert (found.dtype, found.tolist()) == (np.int32, [2, 3, 4])
    wide = run(made, np.array([1, 2, 3]), x64=True)["y"]
    assert (wide.dtype, wide.tolist()) == (np.int64, [2, 3, 4])
    assert read(made, x64=True).narrowed == ()


def test_whole_numbers_that_do_not_fit_are_refused() -> None:
    many = np.full(100, 1 << 40)
    made = simple([N("Add", ["x", "many"], ["y"])], (100,), kind=INT64, many=many)
    assert codes(refused(made)) == ["AOTC-E844"]
    one = simple([N("Add", ["x", "one"], ["y"])], (3,), kind=INT64, one=np.array(1 << 40))
    assert codes(refused(one, np.zeros(3, np.int32))) == ["AOTC-E844"]
    assert run(one, np.zeros(3, np.int64), x64=True)["y"].tolist() == [1 << 40] * 3


def test_doubles_are_refused_without_types_of_64_bits() -> None:
    made = simple([N("Relu", ["x"], ["y"])], kind=TensorProto.DOUBLE)
    assert codes(refused(made)) == ["AOTC-E844"]
    assert run(made, X.astype(np.float64), x64=True)["y"].dtype == np.float64
    cast = simple([N("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)])
    assert codes(refused(cast, X)) == ["AOTC-E844"]


def test_a_shape_that_is_computed_from_values_is_refused_with_the_node() -> None:
    nodes = [
        N("Cast", ["x"], ["whole"], to=INT64),
        N("Reshape", ["x", "whole"], ["y"], "reshaping"),
    ]
    error = refused(simple(nodes, (2,)), np.ones(2, np.float32))
    assert codes(error) == ["AOTC-E844"]
    assert "reshaping" in str(error)


def test_a_map_of_columns_at_the_end_is_cut() -> None:
    nodes = [
        N("Relu", ["x"], ["scores"]),
        N("ZipMap", ["scores"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    made = model(graph(nodes, [value("x")], [value("y", None)]), opsets={"": 20, "ai.onnx.ml": 3})
    assert np.array_equal(run(made, X)["y"], X)
    assert "ZipMap" in read(made).producer["cut"]


def test_texts_as_class_labels_are_refused() -> None:
    node = N(
        "LinearClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        coefficients=[1.0] * 6,
        classlabels_strings=["a", "b"],
    )
    made = model(graph([node], [value("x")], [value("y", None)]), opsets={"": 20, "ai.onnx.ml": 3})
    assert codes(refused(made, X)) == ["AOTC-E844"]


@pytest.mark.parametrize("known", [True, False])
def test_conditions_choose_a_branch(known: bool) -> None:
    def branch(op: str) -> Any:
        return graph([N(op, ["x"], ["r"])], [], [value("r", None)])

    nodes = [
        N("ReduceMax", ["x"], ["largest"], keepdims=0),
        N("Greater", ["largest", "limit"], ["c"]),
        N(
            "If",
            ["flag" if known else "c"],
            ["y"],
            then_branch=branch("Neg"),
            else_branch=branch("Abs"),
        ),
    ]
    made = simple(nodes, limit=np.array(4, np.float32), flag=np.array(False))
    assert np.array_equal(run(made, X)["y"], np.abs(X) if known else -X)
    assert np.array_equal(run(made, -X)["y"], X)


def test_branches_of_two_shapes_are_refused() -> None:
    one = graph([N("Relu", ["x"], ["r"])], [], [value("r", None)])
    other = graph([N("Transpose", ["x"], ["r"])], [], [value("r", None)])
    nodes = [
        N("ReduceMax", ["x"], ["largest"], keepdims=0),
        N("Greater", ["largest", "limit"], ["c"]),
        N("If", ["c"], ["y"], then_branch=one, else_branch=other),
    ]
    error = refused(simple(nodes, limit=np.array(4, np.float32)), X)
    assert codes(error) == ["AOTC-E844"]


def test_a_loop_that_its_values_end_runs_as_while() -> None:
    body = graph(
        [
            N("Add", ["a", "a"], ["b"]),
            N("ReduceMax", ["b"], ["largest"], keepdims=0),
            N("Less", ["largest", "limit"], ["d"]),
        ],
        [value("i", (), INT64), value("c", (), TensorProto.BOOL), value("a", None)],
        [value("d", (), TensorProto.BOOL), value("b", None)],
    )
    made = simple(
        [N("Loop", ["", "yes", "x"], ["y"], body=body)],
        yes=np.array(True),
        limit=np.array(100, np.float32),
    )
    assert np.array_equal(run(made, X)["y"], X * 32)


def test_a_loop_whose_steps_need_their_number_becomes_its_steps() -> None:
    body = graph(
        [
            N("Unsqueeze", ["i", "first"], ["at"]),
            N("Add", ["at", "one"], ["end"]),
            N("Slice", ["x", "at", "end", "one"], ["column"]),
            N("Add", ["a", "column"], ["b"]),
            N("Identity", ["c"], ["d"]),
        ],
        [value("i", (), INT64), value("c", (), TensorProto.BOOL), value("a", None)],
        [value("d", (), TensorProto.BOOL), value("b", None)],
    )
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    made = simple(
        [N("Loop", ["trips", "", "start"], ["y"], body=body)],
        x.shape,
        trips=np.array(20),
        start=np.zeros((2, 1), np.float32),
        first=np.array([0]),
        one=np.array([1]),
    )
    assert np.array_equal(run(made, x)["y"], x.sum(1, keepdims=True))


@pytest.mark.parametrize(
    ("opset", "axes"), [(12, {"axes": [1]}), (13, None)], ids=["attribute", "input"]
)
def test_axes_are_an_attribute_or_an_input_by_version(opset: int, axes: Any) -> None:
    if axes:
        made = simple([N("ReduceSum", ["x"], ["y"], keepdims=0, **axes)], opset=opset)
    else:
        made = simple(
            [N("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], opset=opset, axes=np.array([1])
        )
    assert np.array_equal(run(made, X)["y"], X.sum(1))


def test_softmax_flattens_before_version_13() -> None:
    x = np.random.default_rng(0).random((2, 3, 4), np.float32)

    def over(axes: tuple[int, ...]) -> Any:
        powers = np.exp(x - x.max())
        return powers / powers.sum(axes, keepdims=True)

    node = N("Softmax", ["x"], ["y"], axis=1)
    assert np.allclose(run(simple([node], x.shape, 12), x)["y"], over((1, 2)), atol=1e-6)
    assert np.allclose(run(simple([node], x.shape, 13), x)["y"], over((1,)), atol=1e-6)


def test_division_of_whole_numbers_truncates_and_modulo_has_the_sign_that_it_says() -> None:
    x = np.array([7, -7, 7, -7], np.int32)
    d = np.array([2, 2, -2, -2], np.int32)
    kind = TensorProto.INT32
    assert run(simple([N("Div", ["x", "d"], ["y"])], (4,), kind=kind, d=d), x)["y"].tolist() == [
        *(3, -3, -3, 3)
    ]
    mod = run(simple([N("Mod", ["x", "d"], ["y"])], (4,), kind=kind, d=d), x)["y"]
    assert mod.tolist() == [1, 1, -1, -1]
    fmod = run(simple([N("Mod", ["x", "d"], ["y"], fmod=1)], (4,), kind=kind, d=d), x)["y"]
    assert fmod.tolist() == [1, -1, 1, -1]


def test_inputs_that_are_no_arrays_are_refused() -> None:
    made = model(
        graph(
            [N("SequenceLength", ["x"], ["y"])],
            [helper.make_tensor_sequence_value_info("x", FLOAT, None)],
            [value("y", None)],
        )
    )
    assert codes(refused(made)) == ["AOTC-E844"]
    shapeless = simple([N("Relu", ["x"], ["y"])])
    shapeless.graph.input[0].type.tensor_type.ClearField("shape")
    assert codes(refused(shapeless)) == ["AOTC-E844"]


def test_what_two_maps_and_an_output_take_is_each_of_them() -> None:
    """Also where no node computes it."""
    maps = [
        N("ZipMap", [of], [name], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
        for of, name in (("x", "one"), ("x", "two"), ("w", "three"))
    ]
    outputs = [value(name, None) for name in ("one", "two", "three")]
    w = np.ones((2, 3), np.float32)
    made = model(graph(maps, [value("x")], outputs, w=w), opsets={"": 20, "ai.onnx.ml": 1})
    found = run(made, X)
    assert np.array_equal(found["one"], X) and np.array_equal(found["two"], X)
    assert np.array_equal(found["three"], w)
