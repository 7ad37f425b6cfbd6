"""Operators where their definition leaves room: as onnxruntime and the standard's tests have it."""

from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed: `make test-onnx-frontend` installs it")

import onnxruntime
from onnx import TensorProto, helper

from tests.frontends.onnx_files.making import INT64, graph, model, read, run, simple, value

N = helper.make_node


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_indices_of_one_hot_that_are_no_whole_numbers_are_cut() -> None:
    nodes = [N("OneHot", ["x", "depth", "values"], ["y"])]
    made = simple(nodes, (4,), depth=np.array(3), values=floats(0, 1))
    found = run(made, floats(0, 1, 2.9, -0.5))["y"]
    assert found.argmax(1).tolist() == [0, 1, 2, 0] and (found.sum(1) == 1).all()


def test_an_axis_that_shrinks_takes_the_next_element_before_version_11() -> None:
    nodes = [N("Resize", ["x", "scales"], ["y"], mode="nearest")]
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    made = simple(nodes, x.shape, opset=10, scales=floats(1, 1, 0.6, 0.6))
    assert run(made, x)["y"].tolist() == [[[[1, 3]]]]  # the standard's test of version 10


@pytest.mark.parametrize(("size", "scale", "wanted"), [(10, 0.7, 7), (5, 2.3, 11), (3, 0.34, 1)])
def test_sizes_are_those_of_shape_inference(size: int, scale: float, wanted: int) -> None:
    nodes = [N("Resize", ["x", "", "scales"], ["y"])]
    x = np.zeros((1, 1, size), np.float32)
    found = run(simple(nodes, x.shape, scales=floats(1, 1, scale)), x)["y"]
    assert found.shape == (1, 1, wanted)


FLAG = TensorProto.BOOL


def stacking(trips: Any, condition: Any = None) -> Any:
    """A loop that stacks the square of what it has added up."""
    body = helper.make_graph(
        [
            N("Identity", ["goes"], ["on"]),
            N("Add", ["sum", "x"], ["added"]),
            N("Mul", ["added", "added"], ["row"]),
        ],
        "body",
        [value("i", [], INT64), value("goes", [], FLAG), value("sum")],
        [value("on", [], FLAG), value("added"), value("row")],
    )
    given = {"zero": np.zeros((2, 3), np.float32)}
    given |= {} if trips is None else {"trips": np.array(trips)}
    given |= {} if condition is None else {"condition": np.array(condition)}
    names = ["" if trips is None else "trips", "" if condition is None else "condition", "zero"]
    return simple([N("Loop", names, ["last", "y"], body=body)], **given)


@pytest.mark.parametrize(("trips", "condition"), [(0, None), (0, True), (None, False), (5, False)])
def test_a_loop_without_a_step_stacks_no_results(trips: int | None, condition: bool | None) -> None:
    x = np.ones((2, 3), np.float32)
    assert run(stacking(trips, condition), x)["y"].shape == (0, 2, 3)
    found = run(stacking(2), x)["y"]
    assert found.shape == (2, 2, 3) and found[1, 0, 0] == 4


def test_products_of_converted_truth_values_are_products_of_numbers() -> None:
    nodes = [
        N("Less", ["x", "zero"], ["mask"]),
        N("Cast", ["mask"], ["number"], to=TensorProto.FLOAT),
        N("Mul", ["number", "factor"], ["y"]),
    ]
    made = simple(nodes, (3,), zero=floats(0), factor=floats(1, np.inf, np.nan))
    found = run(made, floats(-1, 1, 1))["y"]
    np.testing.assert_array_equal(found, floats(1, np.nan, np.nan))


@pytest.mark.parametrize("base", [2, -1, 1, 3])
def test_powers_of_integers_are_onnxruntimes(base: int) -> None:
    exponents = np.array([-3, -2, -1, 0, 1, 2, 3, 10], np.int32)
    nodes = [
        N("Cast", ["x"], ["whole"], to=TensorProto.INT32),
        N("Pow", ["whole", "exponents"], ["power"]),
        N("Cast", ["power"], ["y"], to=TensorProto.FLOAT),
    ]
    made = simple(nodes, (8,), exponents=exponents)
    x = np.full(8, base, np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    np.testing.assert_array_equal(run(made, x)["y"], session.run(None, {"x": x})[0])


@pytest.mark.parametrize(("name", "least"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_extreme_of_empty_constant_is_end_of_its_type(name: str, least: float) -> None:
    nodes = [N(name, ["empty", "axes"], ["z"], keepdims=0), N("Add", ["x", "z"], ["y"])]
    made = simple(nodes, axes=np.array([0]), empty=np.zeros((0, 3), np.float32))
    assert (run(made, np.ones((2, 3), np.float32))["y"] == least).all()
    whole = simple(nodes, kind=INT64, axes=np.array([0]), empty=np.zeros((0, 3), np.int64))
    found = run(whole, np.zeros((2, 3), np.int32))["y"]
    ends = np.iinfo(np.int32)
    assert (found == (ends.min if name == "ReduceMax" else ends.max)).all()


POOLING: tuple[dict[str, Any], ...] = (
    {"ceil_mode": 1, "strides": [2, 3]},
    {"ceil_mode": 1, "strides": [3, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    {"auto_pad": "SAME_UPPER", "strides": [2, 1]},
    {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
)


@pytest.mark.parametrize("more", POOLING)
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_windows_over_varying_sizes_are_right(name: str, more: dict[str, Any]) -> None:
    if name == "MaxPool":
        more = {key: each for key, each in more.items() if key != "count_include_pad"}
    made = simple([N(name, ["x"], ["y"], kernel_shape=[3, 2], **more)], (1, 2, "h", "w"))
    got = read(made)
    shape = jax.export.symbolic_shape("1,2,h,w", constraints=["h >= 3", "w >= 3"])
    every = jax.export.export(jax.jit(got.function))({}, jax.ShapeDtypeStruct(shape, np.float32))
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for height, width in ((3, 3), (4, 8), (7, 5), (9, 12)):
        x = np.random.default_rng(height).normal(size=(1, 2, height, width)).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(every.call({}, x)["y"], wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(run(made, x)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["Slice", "Split"])
def test_constant_places_are_cut_to_a_size_that_varies(operator: str) -> None:
    """As BERT's exporters take positions: numpy, which holds them, takes no symbolic size."""
    cut = {
        "Slice": [N("Slice", ["places", "zero", "length", "axis"], ["positions"])],
        "Split": [
            N("Sub", ["whole", "length"], ["rest"]),
            N("Concat", ["length", "rest"], ["parts"], axis=0),
            N("Split", ["places", "parts"], ["positions", "others"], axis=1),
        ],
    }
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "axis"], ["length"]),
        *cut[operator],
        N("Gather", ["table", "positions"], ["rows"]),
        N("Mul", ["x", "rows"], ["y"]),
    ]
    one = {name: np.array([at]) for name, at in (("zero", 0), ("axis", 1), ("whole", 12))}
    table, places = np.arange(12, dtype=np.float32), np.arange(12)[None]
    got = read(simple(nodes, ("b", "s"), table=table, places=places, **one))
    shape = jax.export.symbolic_shape("b,s", constraints=["s <= 12"])
    traced = jax.export.export(jax.jit(got.function))
    every = traced(dict(got.weights), jax.ShapeDtypeStruct(shape, np.float32))
    for size in (1, 5, 12):
        x = np.ones((2, size), np.float32)
        found = every.call(dict(got.weights), x)["y"]
        np.testing.assert_array_equal(found, x * table[:size])


@pytest.mark.parametrize("end", [0, -(1 << 40)])
def test_a_slice_backwards_ends_before_its_end_where_sizes_vary(end: int) -> None:
    at = {"start": -1, "end": end, "axis": 0, "step": -1}
    given = {name: np.array([number]) for name, number in at.items()}
    got = read(simple([N("Slice", ["x", *at], ["y"])], ("n",), **given))
    shape = jax.export.symbolic_shape("n", constraints=["n >= 2"])
    every = jax.export.export(jax.jit(got.function))({}, jax.ShapeDtypeStruct(shape, np.float32))
    x = floats(0, 1, 2, 3)
    wanted = x[::-1] if end else x[:0:-1]
    np.testing.assert_array_equal(every.call({}, x)["y"], wanted)


def test_a_convolution_of_a_size_that_varies_is_padded_to_the_same() -> None:
    """Never by less than nothing, where a step is longer than the kernel."""
    kernel = np.random.default_rng(0).normal(size=(4, 2, 3, 2)).astype(np.float32)
    nodes = [N("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 3])]
    made = simple(nodes, (1, 2, "h", "w"), w=kernel)
    got = read(made)
    shape = jax.export.symbolic_shape("1,2,h,w")
    every = jax.export.export(jax.jit(got.function))(
        dict(got.weights), jax.ShapeDtypeStruct(shape, np.float32)
    )
    for height, width in ((1, 1), (4, 6), (5, 9)):
        x = np.random.default_rng(height).normal(size=(1, 2, height, width)).astype(np.float32)
        found = every.call(dict(got.weights), x)["y"]
        np.testing.assert_allclose(found, run(made, x)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transform", ["asymmetric", "half_pixel"])
@pytest.mark.parametrize(("old", "new"), [(8, 0.6), (7, 1.7), (10, 0.3), (25, 0.44)])
def test_nearest_element_has_single_precision(transform: str, old: int, new: float) -> None:
    """As onnxruntime and torch round: 3 / 0.6 is 5, though 0.6 in a file is a little more."""
    how = {"nearest_mode": "floor", "coordinate_transformation_mode": transform}
    nodes = [N("Resize", ["x", "", "scales"], ["y"], mode="nearest", **how)]
    x = np.arange(old, dtype=np.float32)[None, None]
    made = simple(nodes, x.shape, scales=floats(1, 1, new))
    (wanted,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    assert np.array_equal(run(made, x)["y"], wanted)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("scales", [(2.5, 1.7), (0.3, 0.5), (0.6, 0.8), (0.2, 0.17)])
@pytest.mark.parametrize("transform", ["align_corners", "pytorch_half_pixel"])
def test_fractional_resize_is_whole(transform: str, scales: tuple[float, float], mode: str) -> None:
    nodes = [
        N("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=transform)
    ]
    x = np.random.default_rng(1).normal(size=(1, 2, 5, 6)).astype(np.float32)
    made = simple(nodes, x.shape, s=floats(1, 1, *scales))
    (wanted,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(run(made, x)["y"], wanted, rtol=1e-5, atol=1e-5)


DYNAMIC = (
    (0, 0, 0),
    (0.0, -0.0),
    (1, 2, 3),
    (-1, -2, -3),
    (5,),
    (-0.25, 7, 3.5),
    (-1, 1, 0.5),
    (np.inf, 1, 0),
    (3e38, -1),
)


@pytest.mark.parametrize("values", DYNAMIC)
def test_dynamic_quantization_is_that_of_onnxruntime(values: tuple[float, ...]) -> None:
    node = N("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    outputs = [value("q", None, TensorProto.UINT8), value("scale", None)]
    outputs += [value("zero", None, TensorProto.UINT8)]
    made = model(graph([node], [value("x", (len(values),))], outputs))
    x = floats(*values)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    found = run(made, x)
    for name, array in zip(("q", "scale", "zero"), wanted, strict=True):
        np.testing.assert_array_max_ulp(found[name].astype(np.float32), array.astype(np.float32), 1)


def test_dynamic_quantization_of_nan_has_a_scale_of_nan() -> None:
    """As ONNX's own function of it, whose ReduceMax keeps NaN; ONNX Runtime leaves NaN out."""
    node = N("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    made = model(graph([node], [value("x", (2,))], [value("scale", ())]))
    assert np.isnan(run(made, floats(np.nan, 1))["scale"])
