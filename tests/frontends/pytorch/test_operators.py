"""Each operator against torch itself: the calls that `torch_operators.py` recorded."""

import inspect
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.frontends.pytorch.operators import OPERATORS
from aotc.frontends.pytorch.operators.torch_operator_table import Memory
from aotc.frontends.pytorch.torch_dtypes import SCALAR_TYPES, canonical
from aotc.frontends.pytorch.torch_plan import UNREAD
from aotc.frontends.pytorch.torch_refusals import Unsupported
from aotc.frontends.pytorch.torch_schema import Sym, TensorMeta
from tests.frontends.pytorch.recorded import FOLDER, apart

if not FOLDER.is_dir():  # once, not for each of a thousand operators
    pytest.skip("run make test-torch", allow_module_level=True)

pytestmark = pytest.mark.torch


@cache
def calls() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in json.loads((FOLDER / "operators.json").read_text(encoding="utf-8")):
        found[call["op"]].append(call)
    return found


@cache
def tensors() -> Any:
    return np.load(FOLDER / "operators.npz")


def decoded(value: Any, meta: bool = False) -> Any:
    if isinstance(value, list):
        return tuple(decoded(item, meta) for item in value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "complex" in value:
        return complex(*value["complex"])
    if "scalar_type" in value:
        return canonical(SCALAR_TYPES[value["scalar_type"]])
    array = tensors()[value["tensor"]]
    if meta:
        sizes = tuple(Sym(as_int=size) for size in array.shape)
        return TensorMeta(value["dtype"], sizes, sizes, Sym(as_int=0), 7)
    return array.astype(SCALAR_TYPES[value["dtype"]])


def is_wide(value: Any) -> bool:
    """Return whether 64-bit floats are among these."""
    if isinstance(value, dict):
        return value.get("dtype", value.get("scalar_type")) in (8, 9, 11)
    return isinstance(value, list) and any(map(is_wide, value))


def differences(call: dict[str, Any]) -> Iterator[str]:
    known = OPERATORS[call["op"]]
    given = {key: value for key, value in call["args"].items() if key not in UNREAD}
    metas = {key: decoded(value, meta=True) for key, value in given.items()}
    if known.refuse is not None and known.refuse(metas) is not None:
        return
    values = {key: decoded(value) for key, value in given.items()}
    names = sorted(values)
    arrays = [name for name in names if has_arrays(values[name])]
    fixed = {name: values[name] for name in names if name not in arrays}

    def run(**varying: Any) -> Any:
        return known.function(**fixed, **varying)

    try:
        found = jax.jit(run)(**{name: values[name] for name in arrays})
    except Unsupported:
        return
    expected = decoded(call["out"])
    if call["op"] in ANY_OF_EQUAL and np.ndim(values["self"]):
        # Torch promises no place among equal elements.
        axis = values.get("dim", -1)
        reduced = found[1].ndim < np.ndim(values["self"])
        places = jnp.expand_dims(found[1], axis) if reduced else found[1]
        taken = jnp.take_along_axis(jnp.asarray(values["self"]), places, axis)
        taken = jnp.squeeze(taken, axis) if reduced else taken
        found, expected = [found[0], taken], (expected[0], expected[0])
    if call["op"] in FIRST_RESULT:
        found, expected = [found[0]], (expected[0],)
    found, expected = (without_signs(call["op"], each) for each in (found, expected))
    if not isinstance(found, tuple | list):
        found, expected = [found], [expected]
    elif not isinstance(expected, tuple):
        expected = [expected]
    if len(found) != len(expected):
        yield f"{len(found)} results, not {len(expected)}"
        return
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one is None and call["op"] in WITHOUT_INFO:
            continue
        if not isinstance(other, np.ndarray | np.generic):
            if one != other:
                yield f"{one}, not {other}"
            continue
        one, other = jnp.asarray(one), np.asarray(other)
        if one.shape != other.shape or one.dtype != canonical(other.dtype):
            yield f"result {number}: {one.dtype}{one.shape}, not {other.dtype}{other.shape}"
            continue
        far = apart(np.asarray(one), other)
        limit = 2e-2 if other.dtype.itemsize == 2 and other.dtype.kind not in "iu" else 1e-5
        if not far <= limit:
            yield f"result {number}: off by {far:.2g}"


def without_signs(op: str, results: Any) -> Any:
    """Eigenvectors and singular vectors as what is one whatever their signs: products."""
    if op.endswith("linalg_eigh.default") and np.size(results[1]):
        values, vectors = map(np.asarray, results)
        across = np.swapaxes(vectors, -1, -2).conj()
        return values, vectors * values[..., None, :] @ across, vectors @ across
    if "svd" in op and len(results) == 3 and np.asarray(results[0]).any():
        left, values, right = map(np.asarray, results)
        right = right if "linalg" in op else np.swapaxes(right, -1, -2).conj()
        across = np.swapaxes(left, -1, -2).conj()
        back = np.swapaxes(right, -1, -2).conj()
        count = values.shape[-1]
        whole = left[..., :count] * values[..., None, :] @ right[..., :count, :]
        return values, whole, left @ across, back @ right
    return results


def has_arrays(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(has_arrays, value))
    return isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.dtype)


ANY_OF_EQUAL = {"aten.median.dim", "aten.nanmedian.dim", "aten.topk.default"}

FIRST_RESULT = {
    *(f"aten.adaptive_max_pool{rank}d.default" for rank in (1, 2, 3)),
    *(f"aten.max_pool{rank}d_with_indices.default" for rank in (1, 2, 3)),
    "aten.embedding_bag.default",
    "aten.embedding_bag.padding_idx",
    "aten._embedding_bag.default",
    "aten._embedding_bag_forward_only.default",
}
"""Outputs of bags for gradients, and the places of the largest elements, are not computed."""

WITHOUT_INFO = {
    f"aten.{name}.default"
    for name in (
        *("_linalg_solve_ex", "linalg_cholesky_ex", "linalg_inv_ex"),
        *("linalg_lu_factor_ex", "linalg_solve_ex"),
    )
}
"""Whose last result says whether a matrix is singular, which is not computed."""

UNINITIALIZED = {name for name in OPERATORS if "empty" in name}
"""Whose values are whatever was in memory."""


@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - UNINITIALIZED))
def test_an_operator_returns_what_torch_returns(name: str) -> None:
    wrong: list[str] = []
    for call in calls().get(name, []):
        wide = is_wide(list(call["args"].values())) or is_wide(call["out"])
        try:
            with jax.enable_x64(wide and not OPERATORS[name].narrow):
                wrong += [f"{found}: {call['args']}" for found in differences(call)]
        except Exception as error:  # noqa: BLE001  every call is told
            wrong.append(f"{type(error).__name__}: {error}: {call['args']}"[:600])
    assert not wrong, "\n".join(text[:500] for text in wrong)


@cache
def schemas() -> dict[str, Any]:
    return json.loads((FOLDER / "schemas.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_takes_torchs_arguments_and_shares_memory_where_torch_does(name: str) -> None:
    schema = schemas()[name]
    if schema is None:
        pytest.skip("this torch does not have it")
    known = OPERATORS[name]
    parameters = inspect.signature(known.function).parameters
    missing = [each for each in schema["arguments"] if each not in {*parameters, *UNREAD, *UNUSED}]
    assert not missing
    assert (known.memory is not Memory.FRESH) == (schema["view"] or name in UNANNOTATED)


UNUSED = {"generator"}

UNANNOTATED = {
    f"aten.{name}.default"
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
} | {
    *(f"aten.atleast_{n}d.{overload}" for n in (1, 2, 3) for overload in ("default", "Sequence")),
    "aten._unsafe_view.default",
    "aten.broadcast_tensors.default",
    "aten.lift.default",
    "aten.meshgrid.default",
    "aten.meshgrid.indexing",
    "aten.type_as.default",
}
"""Of these torch's schemas do not say that they may return what they are given."""


def test_most_operators_were_called() -> None:
    assert len(calls().keys() & OPERATORS.keys()) >= 560
