"""Types that ONNX Runtime has no kernels for: graphs go around them, or name the operation."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import graph_builder
from aotc_runtime.engines import graph_names

from .test_onnx_semantics import compiled, differences

MOVING = (
    *("Concat", "Expand", "Gather", "GatherElements", "Identity", "If", "Loop", "Pad"),
    *("Reshape", "ScatterElements", "Slice", "Transpose", "Where"),
)
"""Operators that graphs use for numbers of every type."""

TYPES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float",
    "f64": "double",
}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _kernels() -> dict[str, set[str]]:
    """Return the types that the installed ONNX Runtime has kernels for, by operator."""
    from onnxruntime.capi import onnxruntime_pybind11_state as library

    found = defaultdict(set)
    for each in library.get_all_opkernel_def():
        first, last = each.version_range
        if each.provider != "CPUExecutionProvider" or not first <= graph_names.OPSET <= last:
            continue
        constraints = each.type_constraints
        name = next((one for one in ("T", "V") if one in constraints), "")
        if not each.domain and name:
            found[each.op_name].update(constraints[name])
    return found


@pytest.mark.parametrize("operator", MOVING)
def test_moved_numbers_have_a_kernel_for_each_type(operator: str) -> None:
    kernels = _kernels()[operator]
    instead = {"f16": "f32", **graph_builder.INSTEAD.get(operator, {})}
    if operator == "Where":
        instead["i1"] = "i1"  # booleans are chosen by And and Or
        kernels = {*kernels, "tensor(bool)"}
    for element in DTYPES:
        has = {f"tensor({TYPES[each]})" for each in (element, instead.get(element, element))}
        assert has & kernels, f"{operator} of {element}"


def _large(dtype: Any) -> Any:
    """More numbers than graphs keep as constants of all their places."""
    return np.tile(np.arange(128) % 2, (80, 1)).astype(dtype)


def _moved(x: Any) -> list[Any]:
    """Arrays of x's type: repeated, chosen, put together, cut, and carried through a loop."""
    one = x[0, 1]
    return [
        jnp.full(x.shape, 1, x.dtype),
        jnp.broadcast_to(one, x.shape),
        jnp.where(x > 0, x, jnp.zeros(x.shape, x.dtype)),
        lax.dynamic_update_slice(
            jnp.zeros((160, 128), x.dtype), x, (one.astype(np.int32), np.int32(0))
        ),
        lax.dynamic_slice(x, (one.astype(np.int32), np.int32(0)), (60, 128)),
        jnp.pad(x, 1, constant_values=1),
        jnp.concatenate([x, jnp.full((70, 128), 1, x.dtype)]).T[::-1],
        x[jnp.argmax(x[0]) + jnp.arange(3)],
        jnp.zeros((90, 128), x.dtype).at[jnp.arange(80)].set(x),
        jnp.take_along_axis(x, jnp.full((80, 2), one.astype(np.int32)), 1),
        jnp.sort(x, 1),
        lax.fori_loop(0, 2, lambda i, y: jnp.where(y == one, y, x), x),
        lax.cond(one == x[0, 0], lambda: x, lambda: jnp.flip(x, 1)),
        x == one,
        jnp.maximum(x, one),
        lax.clamp(x[0, 0], x, one),
        x.max(0),
        jnp.argmax(x, 1),
    ]


@pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=str)
def test_large_arrays_of_every_type_are_moved_as_plain_jax_moves_them(dtype: Any) -> None:
    assert not differences(_moved, _large(dtype))


def test_a_kernel_that_is_missing_is_told_by_the_operation(monkeypatch: Any) -> None:
    monkeypatch.setattr(graph_builder, "INSTEAD", {"Expand": {}, "Where": {}, "Pad": {}})
    made, _ = compiled(
        lambda x: jnp.concatenate([jnp.broadcast_to(x, (80, 128))] * 2), jnp.bfloat16(1)
    )
    assert made.words == "stablehlo.concatenate: ONNX Runtime has no Expand of bf16"
