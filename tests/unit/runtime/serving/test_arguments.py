"""Tests of accepted arguments: arrays, numbers, pytrees and parameters."""

import copy
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest

from aotc_runtime.base.errors import ShapeError
from aotc_runtime.schema.bundle_manifest import EntryPoint
from aotc_runtime.schema.manifest_labels import passed_leaves, passed_parameters, positional_count
from aotc_runtime.schema.pytrees import Tree, builder, leaves
from aotc_runtime.schema.result_records import Record
from aotc_runtime.serving.call_signature import bind, signature_of
from aotc_runtime.serving.device_arrays import as_array
from aotc_runtime.serving.flattened_arguments import flatten
from tests.refusals import error_of

from ..samples import DOCUMENT

F32 = np.dtype(np.float32)


def code(value: Any, dtype: Any, *, scalar: bool = False) -> str:
    refused = error_of(ShapeError, as_array, value, np.dtype(dtype), scalar, "predict x")
    assert refused.findings[0].where == "predict x"
    return refused.code


def test_an_array_of_the_dtype_is_taken_as_it_is() -> None:
    array = np.ones((2, 3), np.float32)
    assert as_array(array, F32, False, "x") is array


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(12, dtype=np.float32)[::2],
        np.arange(12, dtype=np.float32)[::-1],
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.broadcast_to(np.float32(1), (2, 3)),
    ],
    ids=["transposed", "strided", "reversed", "fortran", "big endian", "broadcast"],
)
def test_arrays_that_lie_otherwise_are_copied(array: np.ndarray[Any, Any]) -> None:
    found = as_array(array, F32, False, "x")
    assert found.flags.c_contiguous and found.dtype == F32 and found.dtype.isnative
    np.testing.assert_array_equal(found, array)


class Arraylike:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.ones(2, np.float32)


def test_objects_that_are_arrays_are_taken() -> None:
    np.testing.assert_array_equal(as_array(Arraylike(), F32, False, "x"), [1, 1])
    assert as_array(np.float32(2), F32, True, "x").shape == ()


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        raise ZeroDivisionError("no array today")


MASKED = np.ma.masked_array(np.ones(2, np.float32), mask=True)


@pytest.mark.parametrize(
    "value", [[1.0, 2.0], (1.0,), "1", None, {}, 1.0, 1, b"1", object(), MASKED, Broken()]
)
def test_what_is_no_array_is_refused(value: Any) -> None:
    (finding,) = error_of(ShapeError, as_array, value, np.dtype(np.int32), False, "x").findings
    assert (finding.code, finding.expected) == ("AOTC-E605", "an int32 array")
    assert ("filled" in finding.hint) == (value is MASKED)


@pytest.mark.parametrize("other", [np.float64, np.float16, np.int32, ml_dtypes.bfloat16, np.bool_])
def test_another_dtype_is_refused_and_never_cast(other: Any) -> None:
    assert code(np.ones(2, other), np.float32) == "AOTC-E606"
    assert code(np.ones((), other)[()], np.float32, scalar=True) == "AOTC-E606"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, np.int32),
        (-128, np.int8),
        (255, np.uint8),
        (1, np.float32),
        (0.5, np.float32),
        (1.5, ml_dtypes.bfloat16),
        (float("inf"), np.float32),
        (float("nan"), np.float16),
        (True, np.bool_),
        (1j, np.complex64),
        (1, np.complex64),
        (1e300, np.float64),
        (2**70, np.float32),
        (2**24, np.float32),
        (256, ml_dtypes.bfloat16),
        (2**53 + 1, np.int64),
        (2**64 - 1, np.uint64),
        (-8, ml_dtypes.int4),
        (15, ml_dtypes.uint4),
        (float("-inf"), ml_dtypes.float8_e5m2),
        (float("nan"), ml_dtypes.float8_e4m3fn),
    ],
)
def test_a_python_number_stands_for_a_scalar_that_can_hold_it(value: Any, dtype: Any) -> None:
    found = as_array(value, np.dtype(dtype), True, "x")
    assert found.dtype == dtype and found.shape == ()
    assert found[()] == value or value != value


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (128, np.int8),
        (-1, np.uint32),
        (2**64, np.int64),
        (0.5, np.int32),
        (1.0, np.int32),
        (1, np.bool_),
        (True, np.int32),
        (True, np.float32),
        (1j, np.float32),
        (10**400, np.float32),
        (1e300, np.float32),
        (-1e300, np.float16),
        (1e300, np.complex64),
        (1e300, ml_dtypes.bfloat16),
        (8, ml_dtypes.int4),
        (300, ml_dtypes.int4),
        (-1, ml_dtypes.uint4),
        (16, ml_dtypes.uint4),
        (0.5, ml_dtypes.int4),
        (float("inf"), ml_dtypes.float8_e4m3fn),
        (float("-inf"), ml_dtypes.float8_e4m3fnuz),
        (0, ml_dtypes.float8_e8m0fnu),
        (2**24 + 1, np.float32),
        (257, ml_dtypes.bfloat16),
        (2**200, ml_dtypes.bfloat16),
        (2**53 + 1, np.float64),
        (-(2**2000), np.complex64),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_python_number_that_the_dtype_cannot_hold_is_refused(value: Any, dtype: Any) -> None:
    assert code(value, dtype, scalar=True) == "AOTC-E606"


@pytest.mark.parametrize(
    ("value", "dtype", "hint"),
    [
        (np.ones(2), np.float32, "x.astype(np.float32)"),
        (np.ones(2, np.float32), ml_dtypes.bfloat16, "x.astype(ml_dtypes.bfloat16)"),
        (np.ones(2, np.float32), ml_dtypes.int4, "x.astype(ml_dtypes.int4)"),
        (np.zeros(2, "V2"), ml_dtypes.bfloat16, "x.view(ml_dtypes.bfloat16)"),
        (np.zeros(2, "V4"), ml_dtypes.bfloat16, "x.astype(ml_dtypes.bfloat16)"),
        (None, ml_dtypes.bfloat16, "np.asarray(value, ml_dtypes.bfloat16)"),
        (2**70, np.int32, "a number within the range of the dtype"),
    ],
)
def test_the_hint_is_what_a_program_can_write(value: Any, dtype: Any, hint: str) -> None:
    with pytest.raises(ShapeError) as refused:
        as_array(value, np.dtype(dtype), isinstance(value, int), "predict x")
    assert hint in refused.value.findings[0].hint


LEAF = {"node": "leaf", "index": 0}


def tree(value: Any) -> Tree:
    """A tree from its JSON, with leaves numbered in order."""
    counter = iter(range(99))

    def number(node: Any) -> Any:
        if node == LEAF:
            return {"node": "leaf", "index": next(counter)}
        if isinstance(node, dict) and isinstance(node.get("items"), dict):
            return {**node, "items": {k: number(node["items"][k]) for k in sorted(node["items"])}}
        if isinstance(node, dict) and "items" in node:
            return {**node, "items": [number(item) for item in node["items"]]}
        return node

    return msgspec.convert(number(value), Tree)


Point = namedtuple("Point", ["x", "y"])
PAIR = {"type": "Point", "fields": ["x", "y"], "items": [LEAF, LEAF]}


@dataclass
class Layer:
    x: Any
    y: Any


TREES: list[tuple[dict[str, Any], Any, list[Any]]] = [
    (LEAF, 1, [1]),
    ({"node": "none"}, None, []),
    ({"node": "dict", "items": {"b": LEAF, "a": LEAF}}, {"b": 2, "a": 1}, [1, 2]),
    ({"node": "list", "items": [LEAF, LEAF]}, [1, 2], [1, 2]),
    ({"node": "tuple", "items": [LEAF, {"node": "list", "items": []}]}, (1, []), [1]),
    ({"node": "namedtuple", **PAIR}, Point(1, 2), [1, 2]),
]


@pytest.mark.parametrize(("spec", "value", "flat"), TREES)
def test_flattening_and_building_invert(spec: dict[str, Any], value: Any, flat: list[Any]) -> None:
    pairs = sorted(flatten(tree(spec), value, "x"))
    assert pairs == list(enumerate(flat))
    assert list(leaves(tree(spec))) == list(range(len(flat)))
    assert builder(tree(spec))(flat) == value


def test_records_are_read_by_attribute_or_key_and_come_back_as_records() -> None:
    spec = tree({"node": "record", **PAIR})
    for value in (Layer(1, 2), {"x": 1, "y": 2}, Record("Layer", {"x": 1, "y": 2})):
        assert sorted(flatten(spec, value, "x")) == [(0, 1), (1, 2)]
    built = builder(spec)([1, 2])
    assert (built.x, built.y) == (1, 2) and repr(built) == "Point(x=1, y=2)"
    with pytest.raises(AttributeError):
        built.x = 3
    with pytest.raises(AttributeError):
        _ = built.z
    with pytest.raises(KeyError, match="Point has x, y, not z"):
        _ = built["z"]


class Attributes(dict[str, Any]):
    """A mapping with children beside its items."""

    x, y = 1, 2


class Half(dict[str, Any]):
    x = 1


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        (Attributes(), True),
        (Attributes(other=3), True),
        (Attributes(x=3), False),
        (Half(), False),
        (Record("Point", {"other": 1}), False),
    ],
)
def test_mapping_with_attributes_is_read_by_attribute(value: Any, is_taken: bool) -> None:
    spec = tree({"node": "record", **PAIR})
    if is_taken:
        assert sorted(flatten(spec, value, "x")) == [(0, 1), (1, 2)]
    else:
        with pytest.raises(ShapeError):
            list(flatten(spec, value, "x"))


def test_a_record_without_fields_takes_no_record_that_has_some() -> None:
    spec = tree({"node": "record", "type": "Empty", "fields": [], "items": []})
    assert list(flatten(spec, Record("Empty", {}), "x")) == []
    with pytest.raises(ShapeError):
        list(flatten(spec, Record("Point", {"x": 1}), "x"))


def test_a_named_tuple_is_also_passed_as_a_dict_of_its_fields_and_as_nothing_alike() -> None:
    spec = tree({"node": "namedtuple", **PAIR})
    assert sorted(flatten(spec, {"y": 2, "x": 1}, "x")) == [(0, 1), (1, 2)]
    for value in ({"x": 1}, SimpleNamespace(_fields=("x", "y"), x=1, y=2)):
        with pytest.raises(ShapeError):
            list(flatten(spec, value, "x"))


def test_named_tuples_come_back_without_running_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any, **__: Any) -> Any:
        raise AssertionError("source text was run")

    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(f"builtins.{name}", nothing)
    built = builder(tree({"node": "namedtuple", **PAIR}))([1, 2])
    assert built == (1, 2) and (built.x, built.y) == (1, 2) and built._fields == ("x", "y")
    assert repr(built) == "Point(x=1, y=2)" and built._asdict() == {"x": 1, "y": 2}
    assert built._replace(y=3) == (1, 3) and isinstance(built._replace(y=3), type(built))
    assert copy.deepcopy(built) == built and type(copy.copy(built)) is type(built)
    assert type(built)(3, y=4) == type(built)(*(3, 4)) == type(built)._make([3, 4]) == (3, 4)
    for values, named in (((1,), {}), ((1, 2, 3), {}), ((1, 2), {"y": 2}), ((1,), {"z": 2})):
        with pytest.raises(TypeError, match="takes x, y, each once"):
            type(built)(*values, **named)
    error_of(TypeError, built._replace, z=1)
    with pytest.raises(AttributeError):
        built.x = 3


def test_fields_of_a_named_tuple_may_be_called_self_and_cls() -> None:
    built = builder(tree({"node": "namedtuple", **PAIR, "fields": ["self", "cls"]}))([1, 2])
    assert built._replace(self=3, cls=4) == type(built)(self=3, cls=4) == (3, 4)


def test_any_mapping_stands_for_a_dict_and_a_list_for_a_tuple() -> None:
    spec = tree({"node": "dict", "items": {"a": LEAF}})
    assert list(flatten(spec, OrderedDict(a=1), "x")) == [(0, 1)]
    assert list(flatten(tree({"node": "tuple", "items": [LEAF]}), [1], "x")) == [(0, 1)]


@pytest.mark.parametrize(
    ("spec", "value", "expected", "found"),
    [
        ({"node": "none"}, 0, "None", "an int"),
        ({"node": "list", "items": [LEAF, LEAF]}, [1], "a list of 2", "a list of 1"),
        ({"node": "list", "items": [LEAF]}, np.ones(1), "a list of 1", "a ndarray"),
        (
            {"node": "namedtuple", **PAIR},
            (1, 2),
            "a named tuple Point(x, y), or a dict of its fields",
            "a tuple of 2",
        ),
        ({"node": "record", **PAIR}, {"x": 1}, "Point(x, y)", "a dict without 'y'"),
        (
            {"node": "record", **PAIR},
            SimpleNamespace(x=1),
            "a Point with the field y",
            "a SimpleNamespace",
        ),
        ({"node": "list", "items": [LEAF]}, {"a": 1}, "a list of 1", "a dict with 'a'"),
        ({"node": "tuple", "items": [LEAF]}, {}, "a tuple of 1", "a dict with no keys"),
        ({"node": "dict", "items": {"a": LEAF}}, (1, 2), "a dict with 'a'", "a tuple of 2"),
        ({"node": "dict", "items": {}}, 1.0, "a dict with no keys", "a float"),
        (
            {"node": "dict", "items": {"a": LEAF, "b": LEAF}},
            {"a": 1, "c": 2},
            "a dict with 'a', 'b'",
            "a dict without 'b' and with 'c'",
        ),
        ({"node": "dict", "items": {"a": LEAF}}, {}, "a dict with 'a'", "a dict without 'a'"),
        (
            {"node": "record", **PAIR},
            Record("Point", {"x": 1, "z": 2}),
            "Point(x, y)",
            "a Record without 'y' and with 'z'",
        ),
        (
            {"node": "dict", "items": {"x": LEAF}},
            Point(1, 2),
            "a dict with 'x'",
            "a Point with 'y'",
        ),
        (
            {"node": "record", **PAIR, "type": "OrderedDict"},
            OrderedDict(y=1, x=2),
            "OrderedDict(x, y)",
            "a dict in the order 'y', 'x'",
        ),
    ],
)
def test_structure_is_told(spec: dict[str, Any], value: Any, expected: str, found: str) -> None:
    (finding,) = error_of(ShapeError, lambda: list(flatten(tree(spec), value, "x"))).findings
    assert (finding.code, finding.where) == ("AOTC-E604", "x")
    assert (finding.expected, finding.found) == (expected, found)


def test_another_structure_is_refused_at_its_place() -> None:
    spec = {"node": "list", "items": [LEAF, {"node": "dict", "items": {"a": LEAF}}]}
    assert (
        error_of(ShapeError, lambda: list(flatten(tree(spec), [1, 2], "x"))).findings[0].where
        == "x/1"
    )


def entry_point(**kinds: str) -> EntryPoint:
    """An entry point with these parameters, each one array."""
    document = dict(DOCUMENT["entry_points"]["predict"])
    document["parameters"] = [
        {"name": n, "kind": k, "tree": {"node": "leaf", "index": i}, "donated": False}
        for i, (n, k) in enumerate(kinds.items())
    ]
    return msgspec.convert(document, EntryPoint)


PLAIN = "pass the parameters by position or by name"
SPEC = entry_point(a="positional_only", b="positional_or_keyword", c="keyword_only")


def test_the_signature_is_the_functions() -> None:
    assert str(signature_of(SPEC.parameters)) == "(a, /, b, *, c)"
    assert positional_count(SPEC.parameters) == 2


@pytest.mark.parametrize(
    ("args", "kwargs", "found", "hint"),
    [
        ((1, 2, 3), {}, "too many positional arguments", PLAIN),
        ((1, 2), {}, "missing a required keyword-only argument: 'c'", PLAIN),
        ((), {"a": 1, "b": 2, "c": 3}, "'a'", PLAIN),
        ((1, 2), {"b": 2, "c": 3}, "multiple values for argument 'b'", PLAIN),
        ((1, 2), {"c": 3, "d": 4}, "got an unexpected keyword argument 'd'", PLAIN),
        ((), {}, "missing a required argument: 'a'", PLAIN),
        ((1, 2), {"d": 4}, "'c'; unknown 'd'", "did you mean `c`?"),
        ((1,), {"d": 4}, "'b'; unknown 'd'", PLAIN),
        ((), {"d": {"a": 1}}, "unknown 'd'", "pass an array for each parameter: a, b, c"),
        (({"a": 1, "b": 2},), {}, "'b'", "pass an array for each parameter: a, b, c"),
    ],
)
def test_wrong_arguments_are_refused_with_the_signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], found: str, hint: str
) -> None:
    refused = error_of(ShapeError, bind, "f", signature_of(SPEC.parameters), args, kwargs, SPEC)
    (finding,) = refused.findings
    assert (finding.code, finding.expected) == ("AOTC-E601", "f(a, /, b, *, c)")
    assert found in finding.found and finding.found.count("unknown") == ("unknown" in found)
    assert finding.hint == hint


def masked() -> EntryPoint:
    """An entry point whose second parameter is the mask of a dimension that may be padded."""
    pad = {"policy": "pad", "fill": {}, "mask": "b", "length": "", "proof": []}
    document = {**msgspec.to_builtins(SPEC), "out_of_profile": {"batch": pad}}
    return msgspec.convert(document, EntryPoint)


def test_what_the_loader_passes_is_no_parameter_and_whoever_passes_it_is_told() -> None:
    spec = masked()
    passed = passed_parameters(spec)
    assert [parameter.name for parameter in passed] == ["a", "c"]
    assert passed_leaves(spec) == [0, 2]
    for args, kwargs in (((1,), {"b": 2, "c": 3}), ((1, 2), {"c": 3})):
        refused = error_of(ShapeError, bind, "f", signature_of(passed), args, kwargs, spec)
        assert refused.findings[0].hint.startswith("leave out b, which the loader passes")
