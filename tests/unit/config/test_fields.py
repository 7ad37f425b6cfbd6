"""Values that fields of a manifest take, up to their limits."""

from datetime import date
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from aotc.config import field_types
from aotc.config.manifest_specs import Gates


@pytest.mark.parametrize("value", [0, -1, 2.5, 10**30])
def test_a_number_is_taken_as_it_is(value: float) -> None:
    assert TypeAdapter(field_types.Number).validate_python(value) == value


@pytest.mark.parametrize("value", [True, "1", None, [1], float("nan"), float("inf")])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(field_types.Number).validate_python(value)
    assert "a finite number" in str(refused.value)


@pytest.mark.parametrize(("value", "plain"), [("1", True), (1, True), (date(2026, 1, 1), False)])
def test_a_date_is_not_plain_however_deep(value: Any, plain: bool) -> None:
    for document in (value, [value], {"a": value}, {"a": [{"b": value}]}):
        assert field_types.is_plain(document) is plain


@pytest.mark.parametrize("text", ["f", "a:", ":f", "a:f:g", "a.1:f", "a:def", "a b:f", "a:f."])
def test_a_function_is_named_by_its_module_and_its_name(text: str) -> None:
    assert not field_types.is_function_reference(text)
    assert field_types.is_function_reference("a.b:C.f")


def test_gates_that_are_stated_are_known_by_name_zero_among_them() -> None:
    stated = Gates(max_custom_calls=0, forbid_libraries=("LAPACK",), min_coverage=0.0).in_use()
    assert list(stated) == ["max_custom_calls", "forbid_libraries", "min_coverage"]
