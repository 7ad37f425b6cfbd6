"""ONNX graphs of programs, without ONNX Runtime: tests/engines runs the results."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.base.errors import CompileError
from aotc.base.evidence import ONNX_RUNTIME
from aotc.capture.portable_stablehlo import portable
from aotc.compile.compile_refusals import require_installed
from aotc.engines.onnx_graphs import graph_worker, stablehlo_program
from aotc.engines.onnx_graphs.graph_builder import Graph
from aotc.engines.onnx_graphs.graph_compiler import FORMAT
from aotc.engines.onnx_graphs.graph_job import CALLING, POOL, Job
from aotc.engines.onnx_graphs.graph_translation import translate
from aotc.engines.onnx_graphs.graph_worker import POOLED_FLOPS
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from tests.unit.engines.lowering import module_of

LARGE, SMALL = jnp.ones((128, 128)), jnp.ones((32, 128))
ROWS = jnp.ones((2, 16, 32))
ROW = jnp.ones(32)
IMAGE, KERNEL = jnp.ones((1, 8, 8, 4)), jnp.ones((3, 3, 4, 4))


def graph_of(function: Callable[..., Any], *inputs: Any, weights: tuple[int, ...] = ()) -> Graph:
    return translate(stablehlo_program.read(module_of(function, *inputs)), weights)


def operators(graph: Graph) -> list[str]:
    """Operators in order, but for the one that names each result."""
    return [node.operator for node in graph.walk() if node.operator != "Identity"]


def _steps(x: Any, w: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, y: y @ w, x)


def test_the_largest_operation_decides_who_computes() -> None:
    for function, inputs, expected in (
        (lambda x, w: x @ w, (LARGE, LARGE), POOL),
        (lambda x, w: x @ w @ w @ w @ w, (SMALL, LARGE), CALLING),
        (_steps, (LARGE, LARGE), POOL),
        (lambda x, w: _steps(x, w) + (w @ w)[:32], (SMALL, LARGE), CALLING),
        (jnp.sum, (jnp.ones(POOLED_FLOPS),), POOL),
        (lambda x: jnp.broadcast_to(x, (POOLED_FLOPS,)), (1.0,), CALLING),
    ):
        lowered = jax.jit(function).trace(*inputs).lower(lowering_platforms=("cpu",))
        job, taken = Job(portable(lowered.compiler_ir("stablehlo")).artifact, ()), list[str]()

        def take(made: graph_worker.Translated, taken: list[str] = taken) -> graph_worker.Taken:
            taken.append(made.threads)
            return graph_worker.Taken(b"", {})

        assert not graph_worker.compile_job(job, ONNX_RUNTIME, take).problem
        assert taken == [expected]


def _norm(x: Any, scale: Any, bias: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def _norm_by_squares(x: Any, scale: Any, bias: Any) -> Any:
    """As flax has it."""
    mean, squares = x.mean(-1), (x * x).mean(-1)
    variance = jnp.maximum(0.0, squares - mean * mean)
    factor = lax.rsqrt(variance[..., None] + 1e-6) * scale.reshape(1, 1, -1)
    return (x - mean[..., None]) * factor + bias.reshape(1, 1, -1)


def _norm_by_root(x: Any, scale: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def _conv(x: Any, w: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


LAYER_NORM = ["ReduceSum", "Mul", "Add", "Mul", "LayerNormalization"]

NODES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "a softmax": (jax.nn.softmax, (ROWS,), ["Softmax"]),
    "a logarithm of it": (jax.nn.log_softmax, (ROWS,), ["LogSoftmax"]),
    "a GELU": (lambda x: jax.nn.gelu(x, approximate=False), (ROWS,), ["Gelu"]),
    "a GELU of tanh": (jax.nn.gelu, (ROWS,), ["Gelu"]),
    "a SiLU": (jax.nn.silu, (ROWS,), ["Neg", "Exp", "Add", "Div"]),
    "a ReLU": (jax.nn.relu, (ROWS,), ["Relu"]),
    # The sum says where the mean is infinite.
    "a layer norm": (_norm, (ROWS, ROW, ROW), LAYER_NORM),
    # The mean says where the difference of the squares is no number.
    "flax's layer norm": (
        _norm_by_squares,
        (ROWS, ROW, ROW),
        ["Mul", "LayerNormalization", "Mul", "Mul", "Mul", "Add"],
    ),
    "one with a root": (_norm_by_root, (ROWS, ROW, ROW), LAYER_NORM),
    "an RMS norm": (
        lambda x, s: x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * s,
        (ROWS, ROW),
        ["RMSNormalization"],
    ),
    "a layer": (
        lambda x, w, b: jax.nn.relu(x @ w + b),
        (ROWS, jnp.ones((32, 8)), jnp.ones(8)),
        ["MatMul", "Add", "Relu"],
    ),
    "attention's product": (
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        (jnp.ones((2, 3, 4, 5)), jnp.ones((2, 6, 4, 5))),
        ["Transpose", "Transpose", "MatMul"],
    ),
    "a convolution": (_conv, (IMAGE, KERNEL), ["Transpose", "Transpose", "Conv", "Transpose"]),
    "a scalar times an array": (lambda x: x * 2.0 + 1.0, (ROWS,), ["Mul", "Add"]),
    "a sum": (lambda x: x.sum(1), (ROWS,), ["ReduceSum"]),
    "a running sum": (lambda x: jnp.cumsum(x, 1), (ROWS,), ["CumSum"]),
    "a loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2, x),
        (ROWS,),
        # The loop's condition, before it and at the end of its body; and what counts its turns.
        ["Loop", "Less", "Less", "Add", "Add", "Mul"],
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_what_is_one_operator_of_onnx_becomes_that(name: str) -> None:
    function, inputs, expected = NODES[name]
    assert sorted(operators(graph_of(function, *inputs))) == sorted(expected)


def _scaled(x: Any, w: Any, row: Any) -> Any:
    """A convolution with its batch normalization."""
    return (_conv(x, w) - row) * lax.rsqrt(row + 1e-5) + row


def _largest(x: Any) -> Any:
    edges = ((0, 0), (1, 1), (1, 1), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)


def _weighted(x: Any, w: Any) -> Any:
    """Channels by what all places say of them."""
    made = _conv(x, w)
    return made * jax.nn.sigmoid(made.mean((1, 2), keepdims=True))


CHANNELS_LAST: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a residual block": lambda x, w, row: jax.nn.relu(
        _scaled(x, w, row) + _scaled(jax.nn.relu(_scaled(x, w, row)), w, row)
    ),
    "a pool": lambda x, w, row: _conv(_largest(_conv(x, w)), w),
    "channels by weight": lambda x, w, row: _conv(_weighted(x, w), w),
    "two by two": lambda x, w, row: _conv(
        jnp.concatenate([_conv(x, w), _scaled(x, w, row)], 3)[..., 2:6], w
    ),
    "a clamp": lambda x, w, row: _conv(jnp.clip(_conv(x, w), 0, 6), w),
    "edges of ones": lambda x, w, row: _conv(
        jnp.pad(_conv(x, w), ((0, 0), (1, 0), (2, 1), (0, 0)), constant_values=1), w
    ),
    "a choice": lambda x, w, row: _conv(jnp.where(_conv(x, w) > row, 1.0, row), w),
}


@pytest.mark.parametrize("name", CHANNELS_LAST)
def test_channels_move_once_before_and_once_behind_convolutions(name: str) -> None:
    def function(w: Any, row: Any, x: Any) -> Any:
        return CHANNELS_LAST[name](x, w, row)

    graph = graph_of(function, KERNEL, ROW[:4], IMAGE, weights=(0, 1))
    moving = [
        node.outputs
        for node in graph.walk()
        if node.operator == "Transpose" and not graph.names.fixed.issuperset(node.outputs)
    ]
    assert len(moving) == 2


def test_a_mean_of_places_needs_no_transpose_behind_convolutions() -> None:
    def function(w: Any, x: Any) -> Any:
        return jax.nn.relu(_conv(x, w)).mean((1, 2)) @ jnp.ones((4, 3))

    found = operators(graph_of(function, KERNEL, IMAGE, weights=(0,)))
    assert found == ["Transpose", "Transpose", "Conv", "Relu", "ReduceSum", "Div", "MatMul"]


def test_transposes_stay_where_moving_them_would_move_more() -> None:
    def function(x: Any) -> Any:
        turned = x.swapaxes(1, 2)
        return jnp.tanh(turned) @ x, jnp.exp(turned) @ x

    found = operators(graph_of(function, jnp.ones((2, 16, 16))))
    assert found.count("Transpose") == 1


@pytest.mark.parametrize("queries", [1, 3])
def test_scores_of_attention_are_made_with_the_places_of_the_cache_last(queries: int) -> None:
    def function(q: Any, cache: Any) -> Any:
        scores = jnp.einsum("bnkgd,btkd->bkgnt", q, cache) / 4
        return jax.nn.softmax(jnp.where(cache[0, :, 0, 0] > 0, scores, -jnp.inf))

    graph = graph_of(function, jnp.ones((2, queries, 4, 2, 8)), jnp.ones((2, 16, 4, 8)))
    shapes = {
        node.operator: graph.names.tensors[node.outputs[0]].shape[-1] for node in graph.walk()
    }
    assert shapes["MatMul"] == shapes["Softmax"] == 16
    turned = [node for node in graph.walk() if node.operator == "Transpose"]
    assert all(graph.names.tensors[each.outputs[0]].shape[-1] in (8, 16) for each in turned)


def test_factors_stay_in_their_order_where_exchanging_them_would_transpose_more() -> None:
    found = operators(graph_of(lambda x, y: (x @ y).T, jnp.ones((3, 50)), jnp.ones((50, 4))))
    assert found == ["MatMul", "Transpose"]


NOT_A_NORM: dict[str, Callable[..., Any]] = {
    "over another axis": lambda x, s, b: (
        (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5)
    ),
    "the mean of another array": lambda x, s, b: (
        (x - (x + 1).mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    ),
    "divided by one less": lambda x, s, b: (
        (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5)
    ),
    "repeated along others": lambda x, s, b: (
        (x[0, :2, :2] - x[0, :2, :2].mean(-1, keepdims=True))
        * lax.rsqrt(x[0, :2, :2].var(-1) + 1e-5)
    ),
}


@pytest.mark.parametrize("name", NOT_A_NORM)
def test_what_only_looks_like_a_normalization_is_none(name: str) -> None:
    found = operators(graph_of(NOT_A_NORM[name], ROWS, ROW, ROW))
    assert not {"LayerNormalization", "RMSNormalization"} & {*found}


def test_a_softmax_over_what_is_summed_elsewhere_is_none() -> None:
    def function(x: Any) -> Any:
        power = jnp.exp(x - x.max(-1, keepdims=True))
        return power / power.sum(1, keepdims=True)

    assert "Softmax" not in operators(graph_of(function, ROWS))


def test_a_gelu_with_another_constant_is_none() -> None:
    found = operators(graph_of(lambda x: 0.5 * x * (1 + lax.erf(x / 1.5)), ROWS))
    assert "Gelu" not in found and "Erf" in found


def test_weights_and_inputs_are_named_by_their_places() -> None:
    graph = graph_of(lambda w, x: x @ w, jnp.ones((4, 3)), jnp.ones((2, 4)), weights=(0,))
    assert [each.name for each in graph.inputs] == ["w0", "p1"]
    assert [each.name for each in graph.outputs] == ["r0"]


def test_what_no_result_needs_is_left_out() -> None:
    assert operators(graph_of(lambda x: (jnp.argmax(x, -1), x)[1], ROWS)) == []


def test_bfloat16_passes_as_its_bits() -> None:
    graph = graph_of(lambda x: x + x, jnp.ones(3, jnp.bfloat16))
    assert [each.element for each in (*graph.inputs, *graph.outputs)] == ["ui16", "ui16"]


def test_constants_of_any_type_are_read_bit_by_bit() -> None:
    many = np.arange(300, dtype=np.float32).astype(jnp.bfloat16)
    odd = np.array([1.5, np.nan, -np.inf], np.float32).astype(jnp.bfloat16)
    for constant in (many, odd, np.array([True, False]), np.float16([0.1, 2])):
        graph = graph_of(
            lambda constant=constant: (
                jnp.asarray(constant) * 1 if constant.dtype != bool else jnp.asarray(constant)
            )
        )
        held = [array for _, array in graph.names.arrays.values()]
        assert any(each.tobytes() == constant.tobytes() for each in held)


def _own_scatter(x: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lax.scatter_apply(x, jnp.array([[1]]), lambda y: y * 3 + 1, numbers, update_shape=(1,))


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "complex numbers": (lambda x: x * 1j, (ROW,), "complex<f32>"),
    "small floats": (lambda x: x.astype(jnp.float8_e5m2), (ROW,), "stablehlo.convert of f8E5M2"),
    "a gradient of pooling": (
        jax.grad(
            lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
            ).sum()
        ),
        (IMAGE,),
        "stablehlo.select_and_scatter",
    ),
    "bits of another size": (
        lambda x: lax.bitcast_convert_type(x, jnp.uint8),
        (ROW,),
        "stablehlo.bitcast_convert from f32 to ui8",
    ),
    "a function of one's own in a scatter": (_own_scatter, (ROW,), "stablehlo.scatter"),
    "a transform": (jnp.fft.rfft, (ROW,), "stablehlo.fft"),
    "several, also in loops": (
        lambda x: _own_scatter(lax.fori_loop(0, 3, lambda _, y: _own_scatter(y), x)).view("uint8"),
        (ROW,),
        r"^stablehlo.scatter.* \(2 times, .*; stablehlo.bitcast_convert from f32 to ui8 \(once, ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_lacks_is_refused_by_its_operation(name: str) -> None:
    function, inputs, found = REFUSED[name]
    with pytest.raises(UnsupportedError, match=found):
        graph_of(function, *inputs)


def test_a_package_that_is_not_here_is_told_with_what_installs_it() -> None:
    try:
        made = require_installed("onnxruntime", "onnx", FORMAT)
        assert made == {FORMAT: version(FORMAT)}
    except CompileError as error:
        with pytest.raises(PackageNotFoundError):
            version(FORMAT)
        assert error.code == "AOTC-E907"
        assert ".[onnx]" in error.findings[0].hint
