"""Results of OpenVINO's graphs with weights, and with other inputs in each call, beside plain JAX.

Each function is compiled by the backend's worker and called by the loader's own device, with one
set of inputs after the other and with the first again.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.compile.precision.quantized_module import restoring
from aotc.compile.precision.quantized_numbers import Scheme
from aotc.compile.worker_results import Result
from aotc.engines.onnx_graphs.graph_job import Job
from aotc_runtime.base.errors import BackendError
from scripts.search.engine_calls import Case, Loaded, Lowered

type Array = Any

SETS = 4
"""Calls with different inputs, before the first ones come again."""


def compiled(
    function: Callable[..., Any], inputs: Sequence[Array], weights: Sequence[Array]
) -> tuple[Lowered, Result]:
    """Return the module and what the worker makes of it."""
    from aotc.engines.openvino.openvino_worker import compile_job

    lowered = Lowered(Case("", function, False, weights, {"": inputs}))
    return lowered, compile_job(Job(lowered.module.artifact, tuple(range(len(weights)))))


def loaded(lowered: Lowered, result: Result) -> Loaded:
    """Return the executable on the loader's own device."""
    given = lowered.weights, lowered.trials[0], lowered.outputs
    return Loaded("openvino", result.serialized, *given)


def require_same(
    function: Callable[..., Any], sets: Sequence[Sequence[Array]], weights: Sequence[Array] = ()
) -> Result:
    """Compare results of each set of inputs, and of the first again; return the worker's result."""
    lowered, result = compiled(function, sets[0], weights)
    assert not result.problem, result.words
    executable = loaded(lowered, result)
    for inputs in (*sets, sets[0]):
        for ours, theirs in zip(executable.call(inputs), lowered.plain(inputs), strict=True):
            rtol, atol = (1e-5, 1e-6) if theirs.dtype.kind == "f" else (0, 0)
            np.testing.assert_allclose(ours, theirs, rtol, atol)
    for ours, theirs in zip(executable.kept, weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return result


def masks(*shape: int) -> list[list[Array]]:
    random = np.random.default_rng(0)
    return [[random.random(shape) < 0.7] for _ in range(SETS)]


def numbers(*shape: int, seed: int = 0) -> list[list[Array]]:
    random = np.random.default_rng(seed)
    return [[random.standard_normal(shape).astype(np.float32)] for _ in range(SETS)]


def segments() -> Array:
    rows = jnp.repeat(jnp.arange(3), 4)
    return rows[:, None] == rows[None, :]


WHERE = np.random.default_rng(3).random((4, 8)) < 0.7
KERNEL, SIGNAL = numbers(3, 3, 3)[0][0], numbers(2, 3, 12)[0][0]
ROW = numbers(12)[0][0]


def filtered(signal: Array, kernel: Array, x: Array) -> Array:
    words = ("NCH", "OIH", "NCH")
    return lax.conv_general_dilated(signal, kernel, (1,), "SAME", dimension_numbers=words) * x


CONSTANT_PARTS: dict[str, tuple[Callable[..., Any], list[list[Array]], Sequence[Array]]] = {
    "compared": (lambda m: segments() & m, masks(12, 12), ()),
    "reduced": (
        lambda m: jnp.stack([jnp.arange(12) >= 2, jnp.arange(12) < 9]).all(0) & m,
        masks(12),
        (),
    ),
    "gathered_weights": (
        lambda w, m: w[jnp.array([3, 1, 2, 0])[:, None], jnp.arange(8)[None]] & m,
        masks(4, 8),
        (WHERE,),
    ),
    "in_a_loop": (
        lambda m: lax.scan(lambda c, _: (segments() & c, None), m, None, length=3)[0],
        masks(12, 12),
        (),
    ),
    "in_each_turn": (
        lambda m: lax.scan(lambda c, x: (c, segments() & x), 0.0, m)[1],
        masks(4, 12, 12),
        (),
    ),
    "in_a_branch": (
        lambda m, s: lax.cond(s, lambda m: segments() & m, lambda m: m, m),
        [[*each, np.bool_(number % 2)] for number, each in enumerate(masks(12, 12))],
        (),
    ),
    "scattered": (lambda x: jnp.zeros(12).at[jnp.array([1, 5])].set(1.0) * x, numbers(12), ()),
    "convolution_of_weights": (filtered, numbers(2, 3, 12), (SIGNAL, KERNEL)),
    "loop_of_weights": (
        lambda w, x: lax.fori_loop(0, 3, lambda i, c: c * 2 + w, w) * x,
        numbers(12),
        (ROW,),
    ),
    "weights_in_a_branch": (
        lambda w, x, s: lax.cond(s, lambda: jnp.isnan(w) | (x > 0), lambda: x > 1),
        [[*each, np.bool_(number % 2)] for number, each in enumerate(numbers(12))],
        (ROW,),
    ),
    "a_result": (lambda x: (segments(), x + 1), numbers(3), ()),
}


@pytest.mark.parametrize("name", CONSTANT_PARTS)
def test_constant_parts_are_the_same_in_every_call(name: str) -> None:
    require_same(*CONSTANT_PARTS[name])


@pytest.fixture
def _computing_no_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    from aotc_runtime.engines.openvino import openvino_compilation

    monkeypatch.setattr(
        openvino_compilation, "_compute_constants", lambda library, core, model: None
    )


@pytest.mark.parametrize("name", ["compared", "gathered_weights"])
@pytest.mark.usefixtures("_computing_no_constants")
def test_the_build_refuses_a_graph_that_calls_write_over(name: str) -> None:
    function, sets, weights = CONSTANT_PARTS[name]
    _, result = compiled(function, sets[0], weights)
    assert "write over" in result.words


@pytest.mark.usefixtures("_computing_no_constants")
def test_the_loader_refuses_weights_that_calls_write_over() -> None:
    function, sets, weights = CONSTANT_PARTS["convolution_of_weights"]
    lowered, result = compiled(function, sets[0], weights)
    assert not result.problem
    with pytest.raises(BackendError) as caught:
        loaded(lowered, result)
    (finding,) = caught.value.findings
    assert finding.code == "AOTC-E753"
    assert "write over" in finding.found


@pytest.mark.parametrize("bits", [8, 4])
def test_weights_of_few_bits_stay_packed(bits: int) -> None:
    from aotc_runtime.engines.openvino import openvino_compilation
    from aotc_runtime.engines.openvino.openvino_engine import package
    from aotc_runtime.engines.openvino.openvino_reader import read

    random = np.random.default_rng(0)
    scale = random.random((1, 64)).astype(np.float32)
    if bits == 8:
        weight = random.integers(-127, 127, (64, 64)).astype(np.int8)
        floats = lambda w, s: w.astype(jnp.float32) * s  # noqa: E731
    else:
        weight = random.integers(0, 256, (64, 32)).astype(np.uint8)
        floats = restoring(Scheme("int4", (0,), 64), (64, 64), np.dtype(np.float32))

    def scaled(w: Array, s: Array, x: Array) -> Array:
        return x @ floats(w, s)

    result = require_same(scaled, numbers(8, 64), (weight, scale))
    library = package()._pyopenvino
    core, graph = library.Core(), read(memoryview(result.serialized))
    tensors = {place: library.Tensor(each) for place, each in enumerate((weight, scale))}
    model = openvino_compilation.read_model(library, core, graph, tensors)
    compiled_model = openvino_compilation.compile_model(library, core, model, 1)
    types = {
        str(node.get_rt_info()["outputPrecisions"].astype(str))
        for node in compiled_model.get_runtime_model().get_ordered_ops()
        if node.get_output_size() and prod(node.get_output_shape(0)) == 64 * 64
    }
    assert types and not types & {"f32", "FP32"}


ROWS = np.random.default_rng(7).standard_normal((4, 1)).astype(np.float32)


@pytest.mark.parametrize("reduce", [jnp.sum, jnp.mean, jnp.prod])
@pytest.mark.parametrize(
    ("axis", "keepdims", "row"),
    [(2, False, ROWS[:, 0]), (2, True, ROWS), (0, False, ROWS), (0, True, ROWS)],
)
def test_reduced_rows_ok(reduce: Callable[..., Any], axis: int, keepdims: bool, row: Array) -> None:
    def biased(row: Array, x: Array) -> Any:
        return reduce(x, axis=axis, keepdims=keepdims) * row + row

    require_same(biased, numbers(12, 4, 5), (row,))


@pytest.mark.parametrize("axes", [(1, 3), (1, 2), (2, 3)])
def test_means_of_a_batch_of_one_are_taken_from_their_rows(axes: tuple[int, ...]) -> None:
    def centred(x: Array) -> Any:
        return x - jnp.mean(x, axis=axes, keepdims=True)

    require_same(centred, numbers(1, 3, 4, 4))


def test_results_of_one_element_keep_their_axes() -> None:
    weight = np.array([2], np.float32)

    def scaled(w: Array, x: Array) -> Any:
        return jnp.prod(x, axis=0, keepdims=True) * np.float32(-1.08) + w

    require_same(scaled, numbers(1), (weight,))


def test_absolute_values_of_joined_arrays_leave_other_uses_alone() -> None:
    def both(x: Array) -> Any:
        joined = jnp.concatenate([x[:3], x])
        return joined + 1, jnp.abs(joined)

    require_same(both, numbers(12))
    require_same(both, [[np.arange(-6, 6, dtype=np.int32)]] * 2)


LATE = np.arange(12, dtype=np.float32).reshape(4, 3) / 7 - 1


@pytest.mark.parametrize(
    ("function", "weights"),
    [
        (lambda w, i, x: lax.dynamic_slice_in_dim(w, i, 2, 0) + x, (LATE, np.int32(1))),
        (
            lambda w, i, x: lax.dynamic_update_slice_in_dim(w, w[:2] * 3, i, 0) + x,
            (LATE, np.int32(1)),
        ),
        (
            lambda m, w, x: lax.scan(lambda c, y: (jnp.maximum(c, y), c), w[0], jnp.where(m, w, x))[
                1
            ],
            (np.ones(3, np.bool_), LATE),
        ),
    ],
    ids=["slice", "update", "loop_behind_a_choice"],
)
def test_slices_and_loops_load(function: Callable[..., Any], weights: Sequence[Array]) -> None:
    require_same(function, numbers(3), weights)


def test_a_slice_of_constants_alone_is_refused() -> None:
    def constant(w: Array, i: Array) -> Any:
        return lax.dynamic_slice_in_dim(w, i, 2, 0)

    _, result = compiled(constant, (), (LATE, np.int32(1)))
    assert "stablehlo.dynamic_slice" in result.words and "of constants alone" in result.words


PAIRS = [*zip(numbers(5, 2, seed=1), numbers(5, 2, seed=2), strict=True)]


@pytest.mark.parametrize(
    "join",
    [jnp.subtract, jnp.divide, lambda a, b: jnp.where(b > 0, a, b), lambda a, b: a * b / b],
    ids=["difference", "quotient", "choice", "product"],
)
def test_attention_results_may_have_several_users(join: Callable[..., Any]) -> None:
    def attention(y: Array, x: Array) -> Any:
        made = join(jax.nn.softmax(x @ x.T, axis=-1) @ x, y)
        return made, made + 1

    require_same(attention, [[*y, *x] for y, x in PAIRS])


FAR = np.float32(1e6)
MEAN, DEVIATION = FAR + ROW, np.abs(ROW) + np.float32(0.1)
FAR_SETS = [[FAR + each] for (each,) in numbers(3, 12, seed=5)]


@pytest.mark.parametrize(
    "function",
    [
        lambda m, d, x: (x - m) / d,
        lambda m, d, x: (x - m) * d,
        lambda m, d, x: -(x - m) * d,
        lambda m, d, x: (m - x) / d,
        lambda m, d, x: jnp.broadcast_to((x - m)[None], (2, 3, 12)) * d,
        lambda m, d, x: lax.fori_loop(0, 2, lambda i, c: (c - m) * d + m, x),
        lambda m, d, x: ((x - m) / d) @ jnp.ones((12, 5), jnp.float32),
    ],
)
def test_differences_with_weights_keep_their_digits(function: Callable[..., Any]) -> None:
    result = require_same(function, FAR_SETS, (MEAN, DEVIATION))
    assert count(result, "PRelu") >= 1 or count(result, "Loop") == 1


def normed(kernel: Array, mean: Array, variance: Array, x: Array) -> Array:
    words = ("NHWC", "HWIO", "NHWC")
    made = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=words)
    return (made - mean) * lax.rsqrt(variance + 1e-5)


HARMLESS: dict[str, tuple[Callable[..., Any], list[list[Array]], Sequence[Array]]] = {
    "image": (lambda x: (x - 0.485) / 0.229, numbers(4, 4), ()),
    "batch_norm": (
        normed,
        numbers(1, 4, 4, 3),
        (numbers(3, 3, 3, 5)[0][0], numbers(5)[0][0], numbers(5)[0][0] ** 2),
    ),
    "perceptron": (
        lambda w, b, x: (x @ w + b) * 0.5,
        numbers(4, 12),
        (numbers(12, 5)[0][0], numbers(5)[0][0]),
    ),
    "scaled_and_shifted": (lambda w, x: x * w + 1e6, numbers(4, 12), (ROW,)),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_stands_between_constants_whose_order_does_not_matter(name: str) -> None:
    assert count(require_same(*HARMLESS[name]), "PRelu") == 0


def count(result: Result, operator: str) -> int:
    """Return how often an operator occurs in the graph."""
    assert result.evidence is not None
    return result.evidence.placement[0].steps.get(operator, 0)


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: 1 / (jnp.sum(x * x, 1) + 1),
        lambda w, x: x * lax.rsqrt(jnp.mean(x * x, 0, keepdims=True) + 1e-5),
        lambda w, x: w / (jnp.sum(jnp.abs(x), 1) + 1),
        lambda w, x: jnp.exp(w) / (jnp.max(jnp.abs(x), 1) + 1),
        lambda w, x: x / (jnp.sum(jnp.abs(x), 1, keepdims=True) + 1),
    ],
    ids=["inverse", "norm", "weight", "of a weight", "quotient"],
)
def test_what_is_divided_by_a_sum_is_not_the_divisor(function: Callable[..., Any]) -> None:
    random = np.random.default_rng(5)
    weight = random.standard_normal(6).astype(np.float32)
    sets = [[random.standard_normal((6, 9)).astype(np.float32)] for _ in range(SETS)]
    require_same(function, sets, (weight,))


def test_numbers_are_divided_by_weights_and_not_multiplied_by_inverses() -> None:
    weight = np.float32([0.1, 0.3, 3, 7, 10, 49, 1e-3, 77])
    sets = [[np.arange(8, dtype=np.float32) + number] for number in range(-60, 60)]
    require_same(lambda w, x: jnp.floor(x / w), sets, (weight,))


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: lax.rsqrt(x.var(1) + 1e-5),
        lambda w, x: 1 / (x * x).sum(1),
        lambda w, x: x.sum(0) / jnp.abs(w[0]),
        lambda w, x: jnp.abs(w[0]) / (x * x).sum(0),
        lambda w, x: (x @ w) / w[0],
        lambda w, x: w[0] / ((x * x) @ w),  # no difference of near numbers
        lambda w, x: x / (jnp.abs(x @ w) + 1),
        lambda w, x: (x @ w) / (x * x).sum(1, keepdims=True),
    ],
)
def test_quotients_are_not_turned_round(function: Callable[..., Any]) -> None:
    weight = np.float32(1) + np.abs(numbers(6, 6)[0][0])
    require_same(function, numbers(6, 6, seed=4), (weight,))


def test_a_power_that_is_a_weight_is_a_power() -> None:
    inputs = np.float32([-np.inf, -0.0, 4, np.inf, 0, -1, np.nan])
    for power in (0.5, -0.5, 1.5):
        require_same(lambda w, x: x**w, [[inputs], [inputs[::-1].copy()]], (np.float32([power]),))


def test_attention_of_masked_rows_is_that_of_plain_jax() -> None:
    random = np.random.default_rng(1)

    def attended(q: Array, k: Array, v: Array, m: Array) -> Array:
        scores = jnp.where(m, jnp.einsum("bhqd,bhkd->bhqk", q, k), -jnp.inf)
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)

    sets = []
    for _ in range(SETS):
        q, k, v = (random.standard_normal((1, 2, 6, 8)).astype(np.float32) for _ in range(3))
        mask = random.random((1, 1, 6, 6)) < 0.6
        mask[..., 2, :] = False
        k[0, 1, 3, 0] = np.nan
        sets.append([q, k, v, mask])
    require_same(attended, sets)


@pytest.mark.parametrize("depth", [1, 2])
def test_products_of_weights_alone_stand_beside_inputs(depth: int) -> None:
    """Its compiler ended in a crash for products of one number."""

    def function(one: Array, other: Array, x: Array) -> tuple[Array, Array]:
        product = one @ other
        return jnp.where(x > 0, product, x), lax.cumsum(product * x[0], axis=0)

    weights = [np.full(depth, 0.5, np.float32), np.full((depth, 1), 3, np.float32)]
    require_same(function, numbers(12, 2, 1), weights)


@pytest.mark.parametrize("sizes", [(7, 3), (3, 3), (3, 7)], ids=str)
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("channels", [1, 2])
def test_single_result_steps(sizes: tuple[int, int], pads: tuple[int, int], channels: int) -> None:
    """OpenVINO reads what is no input of such a convolution of one channel."""
    words = ("NHWC", "HWIO", "NHWC")

    def function(kernel: Array, x: Array) -> Array:
        steps, padding = (1, 2) if sizes[1] == 3 else (2, 1), [pads, pads]
        return lax.conv_general_dilated(x, kernel, steps, padding, dimension_numbers=words)

    kernel = numbers(3, 3, channels, 4)[0][0]
    require_same(function, numbers(2, *sizes, channels), [kernel])
