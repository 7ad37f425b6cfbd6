"""Findings name the place where a bundle's caller would get something else than by plain JAX."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aotc.bundle.write.safetensors_writer import write_tensors
from aotc.check.parity_calls import call_differences, structure_differences
from aotc.check.plain_jax import compile_lowered, spell
from aotc.check.plain_structures import (
    Passed,
    PlainCall,
    as_argument,
    call_file,
    differences,
    is_unchanged,
)
from aotc_runtime import Record
from aotc_runtime.base.errors import refusal
from aotc_runtime.schema.bundle_manifest import DType, Parameter, ParameterKind, TensorSpec
from aotc_runtime.schema.manifest_labels import ExecutableKey, executable_key
from aotc_runtime.schema.pytrees import DictNode, Leaf, NamedTupleNode, Tree, TupleNode

Pair = namedtuple("Pair", ["low", "high"])
Other = namedtuple("Other", ["low", "high"])
Turned = namedtuple("Pair", ["high", "low"])

A, B = np.float32([1, 2]), np.float32([3, 4])


@jax.tree_util.register_pytree_node_class
class State:
    """Registered without names, the last attribute first."""

    def __init__(self, mean: Any, count: Any) -> None:
        self.mean, self.count = mean, count

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.count, self.mean), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> State:
        return cls(*reversed(children))


SAME: list[tuple[Any, Any]] = [
    (A, A),
    (None, None),
    ({"a": A, "b": None}, {"b": None, "a": A}),
    ({1: A, -2: B}, {-2: B, 1: A}),
    ([A, (B,)], [A, (B,)]),
    (Pair(A, B), Pair(A, B)),
    (State(A, B), Record("State", {"0": B, "1": A})),
    (State(A, B), Record("State", {"mean": A, "count": B})),
    (3, np.int32(3) + np.zeros((), np.int32)),
]


@pytest.mark.parametrize(("plain", "found"), SAME)
def test_the_same_is_the_same(plain: Any, found: Any) -> None:
    found = np.asarray(found) if isinstance(found, np.generic) else found
    assert list(differences(spell(plain), found, 0.0, 0.0)) == []


DIFFERENT: list[tuple[Any, Any, str]] = [
    (A, B, "the result"),
    (A, A.astype(np.float64), "the result"),
    (A, A[:1], "the result"),
    (A, [1, 2], "the result"),
    (A, None, "the result"),
    (None, A, "the result"),
    ({"a": A}, {"a": B}, "a"),
    ({"a": A}, {"a": A, "b": B}, "the result"),
    ({"a": A}, {}, "the result"),
    ({"a": A}, Record("dict", {"a": A}), "the result"),
    ({1: A}, {"1": A}, "the result"),
    ({1: A}, {True: A}, "the result"),
    ([A], (A,), "the result"),
    ((A,), [A], "the result"),
    ([A], [A, A], "the result"),
    ([[A]], [[B]], "0/0"),
    (Pair(A, B), Pair(B, A), "low"),
    (Pair(A, B), Turned(A, B), "the result"),
    (Pair(A, B), Other(A, B), "the result"),
    (Pair(A, B), (A, B), "the result"),
    (State(A, B), Record("State", {"0": A, "1": B}), "count"),
    (State(A, B), Record("State", {"mean": B, "count": A}), "count"),
    (Pair(A, B), type("Pair", (), {"_fields": Pair._fields, "low": A, "high": B})(), "the result"),
    (Pair(A, B), Record("Pair", {"low": A, "high": B}), "the result"),
    (State(A, B), Record("State", {"mean": A}), "count"),
    (State(A, None), Record("State", {"mean": A}), "count"),
    (State(A, B), Record("Other", {"0": B, "1": A}), "the result"),
    (State(A, B), {"0": B, "1": A}, "the result"),
]


@pytest.mark.parametrize(("plain", "found", "where"), DIFFERENT)
def test_what_differs_is_told_with_its_place(plain: Any, found: Any, where: str) -> None:
    assert next(differences(spell(plain), found, 0.0, 0.0))[0] == where


def test_numbers_may_differ_within_the_tolerance() -> None:
    assert list(differences(spell(A), A + np.float32(1e-3), 0.0, 1e-2)) == []
    assert list(differences(spell(A), A + np.float32(1e-3), 0.0, 1e-4)) != []


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "float8_e4m3fn", "bool", "complex64"])
def test_arrays_of_every_dtype_travel(dtype: str) -> None:
    array = jnp.asarray([0, 1, 1]).astype(dtype)
    argument = as_argument(spell(array))
    assert argument.dtype.name == dtype
    assert list(differences(spell(array), argument, 0.0, 0.0)) == []


def test_random_keys_travel_as_their_data() -> None:
    key = jax.random.key(5)
    assert as_argument(spell(key)).tolist() == jax.random.key_data(key).tolist()


def test_python_numbers_are_passed_as_such() -> None:
    argument = as_argument(spell({"step": 3, "rate": 0.5, "on": True}))
    assert argument == {"step": 3, "rate": 0.5, "on": True}
    assert [type(number) for number in argument.values()] == [int, float, bool]


def test_a_class_is_passed_as_an_object_with_its_children_under_every_name() -> None:
    argument = vars(as_argument(spell(State(A, B))))
    assert argument["mean"] is argument["1"] and argument["mean"].tolist() == [1, 2]
    assert argument["count"] is argument["0"] and argument["count"].tolist() == [3, 4]


def test_a_changed_argument_is_noticed() -> None:
    spelled = spell({"a": [A, None], "b": State(A, 3)})
    argument = as_argument(spelled)
    assert is_unchanged(spelled, argument)
    argument["a"][1] = 9
    assert not is_unchanged(spelled, argument)
    argument["a"][1] = None
    assert is_unchanged(spelled, argument)
    argument["a"][0][0] = 9
    assert not is_unchanged(spelled, argument)


def test_each_call_is_read_back_by_its_executable(tmp_path: Path) -> None:
    sizes: list[dict[str, int]] = [{}, {"n": 1}, {"n": 10}, {"n" * 128: 1}, {"m" * 128: 1}]
    keys = [executable_key(name, each) for name in ("f", "f.n", "f" * 128) for each in sizes]
    for key in keys:
        call_file(tmp_path, key).write(PlainCall(key, (), spell(B)))
    assert [call_file(tmp_path, key).read().key for key in keys] == keys


C = np.float32([5, 6])
ZERO, ONE, TWO = (Leaf(index=index) for index in range(3))


def parameter(name: str, tree: Tree, kind: str = "positional_or_keyword") -> Parameter:
    return Parameter(name=name, kind=ParameterKind(kind), tree=tree, donated=False)


def pair(*items: Tree, fields: tuple[str, ...] = ("low", "high")) -> NamedTupleNode:
    return NamedTupleNode(type="Pair", fields=fields, items=items)


RIGHT = (parameter("pair", pair(ZERO, ONE)), parameter("x", TWO))


def described(parameters: tuple[Parameter, ...] = RIGHT, result: Tree | None = None) -> Any:
    """As much of a bundle manifest as says how `f(pair, x)` is called, which returns {"a", "b"};
    all arrays are float32[2].
    """

    def specs(*paths: str) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(path=path, dtype=DType.FLOAT32, shape=(2,), weak_type=False)
            for path in paths
        )

    f = SimpleNamespace(
        parameters=parameters,
        inputs=specs("pair/low", "pair/high", "x"),
        result=result or DictNode(items={"a": ZERO, "b": ONE}),
        outputs=specs("a", "b"),
        out_of_profile={},
        profiles=[SimpleNamespace(sizes={})],
    )
    return SimpleNamespace(entry_points={"f": f})


@pytest.fixture
def called(tmp_path: Path) -> Path:
    """A folder with what plain JAX was called with and returned."""
    arguments = (Passed("pair", spell(Pair(A, B)), True, True), Passed("x", spell(C), True, True))
    call = PlainCall(ExecutableKey("f"), arguments, spell({"a": B, "b": A}))
    call_file(tmp_path, call.key).write(call)
    fixture = {"inputs/pair/low": A, "inputs/pair/high": B, "inputs/x": C}
    fixture |= {"outputs/a": B, "outputs/b": A}
    (tmp_path / "fixture.f.safetensors").write_bytes(write_tensors(fixture, where="f"))
    return tmp_path


def good(pair: Any, x: Any) -> Any:
    return {"a": B, "b": A}


def other_numbers(pair: Any, x: Any) -> Any:
    return {"a": B, "b": B}


def writing(pair: Any, x: Any) -> Any:
    x[0] = 9
    return good(pair, x)


def refusing(pair: Any, x: Any) -> Any:
    raise refusal("AOTC-E604", "f x", "another", expected="this one", hint="pass it")


CALLED = [(good, None), (other_numbers, "f b"), (writing, "f"), (refusing, "f x")]


@pytest.mark.parametrize(("function", "where"), CALLED)
def test_differing_call_is_told(called: Path, function: Any, where: str | None) -> None:
    manifest = described()
    manifest.entry_points["f"].tolerance = SimpleNamespace(rtol="0", atol="0")
    found = list(call_differences({"f": function}, manifest, called))  # type: ignore[arg-type]
    assert [each.where for each in found] == ([] if where is None else [where, where])


def test_what_has_no_name_for_callers_is_passed_by_position_alone(called: Path) -> None:
    def by_position(x: Any, /) -> Any:
        return x

    manifest = described()
    manifest.entry_points["f"].tolerance = SimpleNamespace(rtol="0", atol="0")
    arguments = (Passed("x", spell(C), True, False),)
    call = PlainCall(ExecutableKey("f"), arguments, spell(C))
    call_file(called, call.key).write(call)
    assert list(call_differences({"f": by_position}, manifest, called)) == []  # type: ignore[arg-type]


def test_a_right_description_is_read_as_plain_jax_was_called(called: Path) -> None:
    assert list(structure_differences(described(), called)) == []


@pytest.mark.parametrize(
    ("manifest", "where"),
    [
        (described((parameter("pair", pair(ONE, ZERO)), RIGHT[1])), "f pair/high"),
        (described((parameter("pair", pair(ZERO, TWO)), parameter("x", ONE))), "f x"),
        (described((parameter("x", TWO), RIGHT[0])), "f pair"),
        (described((parameter("duo", pair(ZERO, ONE)), RIGHT[1])), "f"),
        (described((RIGHT[0], parameter("x", TWO, "keyword_only"))), "f"),
        (described((RIGHT[0],)), "f"),
        (described((parameter("pair", TupleNode(items=(ZERO,))), RIGHT[1])), "f pair"),
        (described(result=DictNode(items={"a": ONE, "b": ZERO})), "f a"),
        (described(result=DictNode(items={"a": ZERO, "c": ONE})), "f the result"),
        (described(result=TupleNode(items=(ZERO, ONE))), "f the result"),
    ],
)
def test_wrong_description_is_noticed_unrun(manifest: Any, where: str, called: Path) -> None:
    assert where in {differing.where for differing in structure_differences(manifest, called)}


@pytest.mark.parametrize(
    "reduced",
    [
        lambda x: jnp.maximum(x @ jnp.full((512, 512), 0.02), 0).sum(1),
        lambda x: (x @ jnp.full((512, 512), 0.02).T).max(1),
        lambda x: ((x - x @ (jnp.ones((512, 512)) / 50)) ** 2).mean(1),
        lambda x: (x[None] @ jax.lax.broadcasted_iota(jnp.float32, (1, 512, 512), 0)).sum(2),
        lambda x: jax.nn.softmax(x @ jnp.ones((512, 512))).sum(0),
        lambda x: jax.nn.silu((x @ x.T * 0.01).reshape(256, 32, 8)).mean(0),
        lambda x: jax.nn.silu((x * 0.01).reshape(256, 64, 8)).mean(0),
    ],
    ids=["relu", "transposed", "centred", "numbered", "softmax", "reshaped", "no-product"],
)
def test_reductions_that_ynnpack_computes_wrong_are_right(reduced: Any) -> None:
    x = np.random.default_rng(0).random((256, 512), np.float32)
    with jax.disable_jit():
        wanted = np.asarray(reduced(x))
    np.testing.assert_allclose(compile_lowered(jax.jit(reduced).lower(x))(x), wanted, rtol=1e-3)
