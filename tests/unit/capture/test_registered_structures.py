"""Random structures of every kind that jax can take apart.

What is recorded of one, the loader takes apart and puts together as its users read it.
"""

import dataclasses
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import equinox
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import checkify
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from aotc.base.errors import CaptureError
from aotc.capture import jax_trees
from aotc.check.plain_jax import spell
from aotc.check.plain_structures import as_argument, differences
from aotc_runtime import Record, ShapeError
from aotc_runtime.schema.pytrees import NamedTupleNode, RecordNode, builder
from aotc_runtime.serving.flattened_arguments import flatten


class Plain(NamedTuple):
    low: Any
    high: Any


class Reordered(NamedTuple):
    """Registered with its fields in another order, without names."""

    low: Any
    high: Any


class Named(NamedTuple):
    """Registered with its fields in another order, by their names."""

    low: Any
    high: Any


class Packed(NamedTuple):
    """Registered with one child of its fields, as the optimizers of jax.example_libraries are."""

    packed: Any
    structure: Any = "static"


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Data:
    first: Any
    second: Any
    name: str = dataclasses.field(default="", metadata={"static": True})


@attrs.define
class Attrs:
    """Registered without names, the last field first."""

    left: Any
    right: Any


class Module(equinox.Module):
    weight: Any
    rest: Any


class SortedDict(dict[Any, Any]):
    """A dict of its own kind, its keys backwards."""


class Row(list[Any]):
    """A list of its own kind."""


class Couple(tuple[Any, ...]):
    """A tuple of its own kind, without fields."""

    __slots__ = ()


jax.tree_util.register_pytree_node(
    Reordered, lambda v: ((v.high, v.low), None), lambda _, c: Reordered(c[1], c[0])
)
jax.tree_util.register_pytree_with_keys(
    Named,
    lambda v: (((GetAttrKey("high"), v.high), (GetAttrKey("low"), v.low)), None),
    lambda _, c: Named(c[1], c[0]),
)
jax.tree_util.register_pytree_node(
    Packed, lambda v: ((v.packed,), v.structure), lambda aux, c: Packed(c[0], aux)
)
jax.tree_util.register_pytree_node(
    Attrs, lambda v: ((v.right, v.left), None), lambda _, c: Attrs(c[1], c[0])
)
jax.tree_util.register_pytree_with_keys(
    SortedDict,
    lambda v: ([(DictKey(k), v[k]) for k in sorted(v, reverse=True)], tuple(sorted(v))),
    lambda keys, c: SortedDict(zip(sorted(keys, reverse=True), c, strict=True)),
)
jax.tree_util.register_pytree_with_keys(
    Row, lambda v: ([(SequenceKey(i), item) for i, item in enumerate(v)], None), lambda _, c: Row(c)
)
jax.tree_util.register_pytree_node(Couple, lambda v: (tuple(v), None), lambda _, c: Couple(c))

TEXTS = st.text("abz_é /0", min_size=1, max_size=3)
INTEGERS = st.integers(-3, 12) | st.sampled_from([2**40, -(2**63) + 1])
TWO = {"plain": Plain, "reordered": Reordered, "named": Named, "data": Data, "attrs": Attrs}


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    listed = st.lists(inner, max_size=3)
    return st.one_of(
        st.dictionaries(TEXTS, inner, max_size=3),
        st.dictionaries(INTEGERS, inner, max_size=3),
        st.lists(st.tuples(TEXTS | INTEGERS, inner), max_size=3).map(OrderedDict),
        st.dictionaries(TEXTS, inner, max_size=3).map(lambda items: defaultdict(list, items)),
        st.dictionaries(INTEGERS, inner, max_size=3).map(SortedDict),
        listed,
        listed.map(tuple),
        listed.map(Row),
        listed.map(Couple),
        inner.map(Packed),
        *(st.builds(class_, inner, inner) for class_ in TWO.values()),
        st.builds(Module, inner, inner),
    )


def numbered(structure: Any) -> Any:
    """With an array of its own at each leaf."""
    numbers = itertools.count()
    return jax.tree.map(lambda _: np.full(2, next(numbers), np.int32), structure)


STRUCTURES = st.recursive(st.just(0) | st.none(), containers, max_leaves=8).map(numbered)


def has_repeated_names(structure: Any) -> bool:
    """Return whether two keys of one container have the same name, such as 1 and "1"."""
    level = jax.tree_util.tree_flatten_with_path(structure, is_leaf=lambda n: n is not structure)[0]
    if level and not level[0][0]:
        return False
    names = [jax_trees.key_name(path[0]) for path, _ in level]
    return len({*names}) < len(names) or any(has_repeated_names(child) for _, child in level)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STRUCTURES)
def test_the_loader_reads_and_rebuilds_a_structure_as_its_users_do(structure: Any) -> None:
    if has_repeated_names(structure):
        with pytest.raises(CaptureError, match="AOTC-E833"):
            jax_trees.describe(structure, itertools.count(), "f result")
        return
    described = jax_trees.describe(structure, itertools.count(), "f result")
    leaves = jax.tree.leaves(structure)
    argument = as_argument(spell(structure))

    passed = dict(flatten(described, argument, "f x"))
    assert [passed[index].tolist() for index in range(len(leaves))] == [x.tolist() for x in leaves]

    found = builder(described)(leaves)
    assert list(differences(spell(structure), found, 0.0, 0.0)) == []

    again = dict(flatten(described, found, "f x"))
    assert all(again[index] is leaf for index, leaf in enumerate(leaves))


def test_what_checkify_returns_is_a_record_of_its_errors() -> None:
    def checked(x: Any) -> Any:
        checkify.check(x > 0, "negative")
        return x

    error = jax.eval_shape(checkify.checkify(checked), np.float32(1))[0]
    described = jax_trees.describe(error, itertools.count(), "f result")
    assert isinstance(described, RecordNode)
    assert [type(item) for item in described.items] == [RecordNode] * len(described.items)


@pytest.mark.parametrize(
    ("leaf", "is_number"),
    [(True, True), (1, True), (1.5, True), (1j, True), (np.float32(1), False), (np.ones(2), False)],
)
def test_pythons_own_numbers_are_told_from_arrays(leaf: Any, is_number: bool) -> None:
    assert jax_trees.is_number(leaf) is is_number


class Logarithm:
    """Registered under a name that means something else to its users."""

    def __init__(self, log: Any) -> None:
        self.log = log

    @property
    def scale(self) -> Any:
        return np.exp(self.log)


jax.tree_util.register_pytree_with_keys(
    Logarithm, lambda v: (((GetAttrKey("scale"), v.log),), None), lambda _, c: Logarithm(c[0])
)


class Fickle:
    """Flattens to its children in another order each time."""

    orders: Iterator[tuple[int, ...]] = itertools.cycle(itertools.permutations(range(3)))

    def __init__(self, *items: Any) -> None:
        self.items = items


jax.tree_util.register_pytree_node(
    Fickle, lambda v: ([v.items[i] for i in next(Fickle.orders)], None), lambda _, c: Fickle(*c)
)


class Swapped:
    """Registered under each other's names."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high


jax.tree_util.register_pytree_with_keys(
    Swapped,
    lambda v: (((GetAttrKey("low"), v.high), (GetAttrKey("high"), v.low)), None),
    lambda _, c: Swapped(c[1], c[0]),
)


class Wider:
    """Registered under a name that holds the child and something else."""

    def __init__(self, item: Any) -> None:
        self.item = (item, 0)


jax.tree_util.register_pytree_with_keys(
    Wider, lambda v: (((GetAttrKey("item"), v.item[0]),), None), lambda _, c: Wider(c[0])
)


class Text(str):
    """A string to Python, which sorts among others; another key to a dict's users it is not."""


class Growing:
    """Flattens to one child more each time."""

    counts: Iterator[int] = itertools.count(1)

    def __init__(self, *items: Any) -> None:
        self.item = items[0]


jax.tree_util.register_pytree_node(
    Growing, lambda v: ([v.item] * next(Growing.counts), None), lambda _, c: Growing(*c)
)


class Renamed(NamedTuple):
    """Registered by names that its fields do not have."""

    low: Any
    high: Any


jax.tree_util.register_pytree_with_keys(
    Renamed,
    lambda v: ((*zip((GetAttrKey("first"), GetAttrKey("second")), v, strict=True),), None),
    lambda _, c: Renamed(*c),
)


class Summed(NamedTuple):
    """Registered without names, as children that it computes with when it is put together."""

    low: Any
    high: Any


jax.tree_util.register_pytree_node(
    Summed, lambda v: ((v.high, v.low), None), lambda _, c: Summed(c[1] + 0, c[0] + 0)
)


class Doubled(NamedTuple("Doubled", [("low", Any), ("high", Any)])):
    """An ordinary named tuple to jax, with a property in place of a field."""

    __slots__ = ()
    low = property(lambda self: tuple.__getitem__(self, 0) * 2)


class IntMap(dict[Any, Any]):
    """A dict of its own kind, registered without names: its first child need not have the key 0."""


class TextMap(IntMap):
    """The same with texts as keys."""


for map_ in (IntMap, TextMap):
    jax.tree_util.register_pytree_node(
        map_,
        lambda v: (tuple(v.values()), tuple(v)),
        lambda keys, c, map_=map_: map_(zip(keys, c, strict=True)),
    )


@pytest.mark.parametrize(
    ("structure", "node", "fields"),
    [
        (Plain(None, 0), NamedTupleNode, ("low", "high")),
        (Reordered(0, 0), RecordNode, ("high", "low")),
        (Renamed(0, 0), RecordNode, ("first", "second")),
        (Summed(0, 0), RecordNode, ("0", "1")),
        (Packed([0, 0]), RecordNode, ("packed",)),
    ],
)
def test_named_tuple_fields_are_names(structure: Any, node: type, fields: tuple[str, ...]) -> None:
    described = jax_trees.describe(numbered(structure), itertools.count(), "f result")
    assert isinstance(described, NamedTupleNode | RecordNode)
    assert (type(described), described.fields) == (node, fields)


@pytest.mark.parametrize(
    ("structure", "found"),
    [
        ({(1, 2): 0}, "the key (1, 2) of type tuple"),
        ({True: 0}, "the key True of type bool"),
        ({1.5: 0}, "the key 1.5 of type float"),
        ({2**63: 0}, "of type int"),
        ({"a": [{b"x": 0}]}, "the key b'x' of type bytes"),
        (OrderedDict([(1, 0), ("1", 0)]), "1, 1"),
        (Logarithm(0), "another value in "),
        (Fickle(0, 0, 0), "another order each time"),
        (Growing(0), "another order each time"),
        (Swapped(0, 0), "another value in "),
        (Wider(0), "another value in "),
        ({"a": 0, Text("b"): 0}, "the key 'b' of type Text"),
        (Doubled(0, 0), "another value in "),
        (TextMap({"1": 0, "0": 0}), "another value in "),
        ({1: 0, 2**64: 0}, "the key 18446744073709551616 of type int"),
    ],
    ids=[
        *("tuple", "bool", "float", "wide", "bytes", "twice", "misleading", "fickle", "growing"),
        *("swapped", "wider", "text", "doubled", "map", "one of two"),
    ],
)
def test_a_structure_that_a_caller_would_misread_is_refused(structure: Any, found: str) -> None:
    leaves, treedef = jax.tree.flatten(structure)
    arrays = [np.full(2, index, np.int32) for index in range(len(leaves))]
    with pytest.raises(CaptureError, match="AOTC-E833") as refused:
        jax_trees.describe(jax.tree.unflatten(treedef, arrays), itertools.count(), "f result")
    assert found in refused.value.findings[0].found


def test_a_property_that_computes_is_refused_where_it_cannot_compute() -> None:
    structure = Logarithm(jax.ShapeDtypeStruct((2,), np.float32))
    with pytest.raises(CaptureError, match="AOTC-E833"):
        jax_trees.describe(structure, itertools.count(), "f result")


def test_leaves_of_one_path_are_refused() -> None:
    jax_trees.check_paths({"a": {"b": 0}, "b": 0}, "f x")
    with pytest.raises(CaptureError) as refused:
        jax_trees.check_paths({"a/b": 0, "a": {"b": 0}}, "f x")
    (finding,) = refused.value.findings
    assert (finding.code, finding.where, finding.found) == ("AOTC-E833", "f x", "a/b, 2 times")


@pytest.mark.parametrize(
    ("leaf", "dtype", "weak_type"),
    [
        (1.5, np.float32, True),
        (np.ones((), np.int32), np.int32, False),
        (jax.ShapeDtypeStruct((), np.int32, weak_type=True), np.int32, True),
    ],
    ids=["number", "array", "shape"],
)
def test_leaves_are_typed_as_jit_takes_them(leaf: Any, dtype: Any, weak_type: bool) -> None:
    found = jax_trees.abstract(leaf)
    assert (found.shape, found.dtype, found.weak_type) == ((), dtype, weak_type)


@pytest.mark.parametrize(
    ("like", "passed"),
    [
        (OrderedDict(b=0, a=0), OrderedDict(a=0, b=0)),
        (OrderedDict(b=0, a=0), OrderedDict(b=0, a=0, c=0)),
        (OrderedDict(b=0, a=0), {"a": 0, "b": 0, "c": 0}),
        (OrderedDict(b=0, a=0), Record("OrderedDict", {"b": 0, "a": 0, "c": 0})),
        (defaultdict(list, a=0), defaultdict(list, a=0, b=0)),
        (Data(0, 0), {"first": 0}),
        (Data(0, 0), {"first": 0, "second": 0, "third": 0}),
        (Plain(0, 0), {"low": 0, "high": 0, "other": 0}),
        (IntMap({1: 0, 0: 0}), IntMap({1: 0, 0: 0})),
    ],
    ids=repr,
)
def test_what_plain_jax_would_take_for_another_structure_is_refused(like: Any, passed: Any) -> None:
    described = jax_trees.describe(numbered(like), itertools.count(), "f x")
    with pytest.raises(ShapeError, match="AOTC-E604"):
        flatten(described, passed, "f x")


def test_items_of_a_named_tuple_are_taken_as_jax_takes_them() -> None:
    described = jax_trees.describe(numbered(Plain(0, 0)), itertools.count(), "f x")
    passed = type("Plain", (Plain,), {"low": property(lambda self: "other")})(1, 2)
    assert dict(flatten(described, passed, "f x")) == {0: 1, 1: 2}


def test_a_refused_key_is_told_with_its_place() -> None:
    with pytest.raises(CaptureError) as refused:
        jax_trees.describe({"a": [{(1,): 0}]}, itertools.count(), "f result")
    assert refused.value.findings[0].where == "f result a/0"
