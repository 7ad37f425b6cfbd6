"""Programs that OpenVINO is given, without OpenVINO: tests/engines compares the results."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.engines.onnx_graphs import stablehlo_program
from aotc.engines.onnx_graphs.graph_translation import translate
from aotc.engines.onnx_graphs.stablehlo_program import UnsupportedError
from aotc.engines.openvino.openvino_exact import PLACES_MAX, require_exact
from tests.unit.engines.lowering import module_of

ROWS = np.ones((4, 8), np.float32)
NUMBERS = np.arange(8, dtype=np.int32)
PLACE = np.array(1, np.int32)


def required(function: Callable[..., Any], *inputs: Any) -> None:
    main = stablehlo_program.read(module_of(function, *inputs))
    require_exact(main, translate(main, ()))


TAKEN: dict[str, tuple[Any, ...]] = {
    "a layer": (lambda x: jax.nn.relu(x @ x.T + 1), ROWS),
    "a norm": (lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1) + 1)[:, None], ROWS),
    "attention": (lambda x: jax.nn.softmax(x @ x.T) @ x, ROWS),
    "the largest": (lambda x: jnp.argmax(x, -1), ROWS),
    "a mask": (lambda x, i: jnp.where(jnp.arange(8) <= i, x, -1e9), ROWS, PLACE),
    "a cache": (lambda x, i: lax.dynamic_update_slice(x, x[:1], (i, 0)), ROWS, PLACE),
    "sums of integers": (lambda x: x * 3 + x - 1, NUMBERS),
    "pixels": (lambda x: x.astype(jnp.float32) / 255, NUMBERS.astype(np.uint8)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_was_compared_is_taken(name: str) -> None:
    required(*TAKEN[name])


REFUSED: dict[str, tuple[str, Any]] = {
    "halves": ("a parameter of f16", (lambda x: x + 1, ROWS.astype(np.float16))),
    "halves within": ("stablehlo.constant of bf16", (lambda x: x.astype(jnp.bfloat16) * 1.5, ROWS)),
    "random bits": ("a parameter of ui32", (lambda k: k + k, NUMBERS.astype(np.uint32))),
    "bytes": ("stablehlo.add of i8", (lambda x: x + x, NUMBERS.astype(np.int8))),
    "quotients": ("stablehlo.divide of i32", (lambda x: lax.div(x, x), NUMBERS)),
    "an operation that was not compared": ("stablehlo.tan", (jnp.tan, ROWS)),
    "two vectors": ("of two vectors", (jnp.dot, ROWS[0], ROWS[0])),
    "a sort": ("stablehlo.sort", (jnp.sort, ROWS)),
    "bits": ("stablehlo.bitcast_convert", (lambda x: x.view(jnp.int32), ROWS)),
    "holes": (
        "stablehlo.reduce_window with dilations",
        (
            lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 2), (1, 1), "VALID", window_dilation=(1, 2)
            ),
            ROWS,
        ),
    ),
    "many places": (
        f"along {PLACES_MAX + 1} places",
        (lambda x, i: x[i], jax.ShapeDtypeStruct((PLACES_MAX + 1,), np.int8), NUMBERS),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_or_was_not_compared_is_refused_by_its_operation(name: str) -> None:
    told, (function, *inputs) = REFUSED[name]
    with pytest.raises(UnsupportedError, match=told):
        required(function, *inputs)
