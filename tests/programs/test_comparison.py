"""The judge of `test_programs.py`: it sees each side by itself, and what is not the same."""

import collections
import importlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from aotc_runtime import Record

from .compared import compare
from .plain import Writer, read
from .roundtrip import HERE

X = np.arange(3, dtype=np.float32)
Y = X + 1
NAN = np.full(3, np.nan, np.float32)


class Pair(NamedTuple):
    low: Any
    high: Any


Turned = collections.namedtuple("Turned", ["low", "high"])
jax.tree_util.register_pytree_node(
    Turned, lambda pair: ((pair.high, pair.low), None), lambda _, children: Turned(*children[::-1])
)


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The two scripts as modules: what they import lies beside them."""
    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module("reference"), importlib.import_module("server")


def differences(
    sides: tuple[Any, Any], by_jax: Any, served: Any, folder: Path, **stated: float
) -> list[str]:
    """Of one result as jax gave it and as a bundle gave it."""
    one, other = (Writer(side.one_level) for side in sides)
    one.save(folder / "one", [{"name": "f", "calls": [[{}, one.node(by_jax)]]}])
    other.save(folder / "other", [[other.node(served)]])
    manifest = {"entry_points": {"f": {"tolerance": stated}}}
    return compare(folder / "one", folder / "other", manifest)["f"].differences


SAME = {
    "an array": (X, X),
    "a dict": ({"b": X, "a": [Y, (X, None)]}, {"a": [Y, (X, None)], "b": X}),
    "int keys": ({1: X, 0: Y}, {0: Y, 1: X}),
    "a named tuple": (Pair(X, Y), Pair(X, Y)),
    "a named tuple of its own": (Turned(low=X, high=Y), Record("Turned", {"high": Y, "low": X})),
    "a class": (collections.OrderedDict(b=X, a=Y), Record("OrderedDict", {"b": X, "a": Y})),
    "random keys": (jax.random.key(7), np.array([0, 7], np.uint32)),
    "nothing": ((), ()),
    "within tolerance": (X, X * np.float32(1 + 1e-6)),
    "not a number": (NAN, NAN),
}

NOT_THE_SAME = {
    "fields": (Pair(X, Y), Pair(Y, X)),
    "fields of its own": (Turned(low=X, high=Y), Record("Turned", {"0": X, "1": Y})),
    "keys": ({"a": X, "b": Y}, {"a": Y, "b": X}),
    "a key's name": ({"a": X}, {"b": X}),
    "a key's type": ({0: X}, {"0": X}),
    "one key less": ({"a": X, "b": Y}, {"a": X}),
    "a list": ([X], (X,)),
    "a class's name": (Pair(X, Y), Turned(X, Y)),
    "None": ({"a": None}, {"a": X}),
    "a dtype": (X, X.astype(np.float64)),
    "a shape": (X, X[:, None]),
    "a number": (X, X + np.float32(1e-4)),
    "an integer": (np.arange(3), np.arange(3) + 1),
    "not a number": (X, NAN),
    "random keys": (jax.random.key(7), np.array([7, 0], np.uint32)),
}


@pytest.mark.parametrize(("by_jax", "served"), SAME.values(), ids=SAME)
def test_same_is_equal(sides: tuple[Any, Any], by_jax: Any, served: Any, tmp_path: Path) -> None:
    assert differences(sides, by_jax, served, tmp_path) == []


@pytest.mark.parametrize(("by_jax", "served"), NOT_THE_SAME.values(), ids=NOT_THE_SAME)
def test_others_differ(sides: tuple[Any, Any], by_jax: Any, served: Any, tmp_path: Path) -> None:
    assert differences(sides, by_jax, served, tmp_path)


def test_tolerances_are_those_of_the_manifest(sides: tuple[Any, Any], tmp_path: Path) -> None:
    near = X + np.float32(1e-4)
    assert differences(sides, X, near, tmp_path)
    assert not differences(sides, X, near, tmp_path, atol=1e-3)


def test_an_argument_is_built_as_it_was_taken_apart(sides: tuple[Any, Any], tmp_path: Path) -> None:
    reference, server = sides
    writer = Writer(reference.one_level)
    value = {2: [X, None], 0: (Pair(Y, 3), {"k": X}), 1: Turned(low=X, high=Y)}
    writer.save(tmp_path / "argument", writer.node(value))
    node, leaves = read(tmp_path / "argument")
    rebuilt = server.built(node, leaves)
    assert Writer(server.one_level).node(rebuilt[1])[0] == "record"
    assert rebuilt[0][0].high == 3 and rebuilt[2][1] is None
    np.testing.assert_array_equal(rebuilt[0][0].low, Y)
    np.testing.assert_array_equal(rebuilt[1].high, Y)
    np.testing.assert_array_equal(rebuilt[0][1]["k"], rebuilt[2][0])
