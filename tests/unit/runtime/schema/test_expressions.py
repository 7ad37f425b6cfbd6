"""Sizes as expressions: what is read, what they come to, and what can be solved for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.schema.size_expressions import (
    LENGTH_MAX,
    Linear,
    parse_expression,
    parse_relation,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch", 3),
        ("2*seq+1", 11),
        ("batch*seq", 15),
        ("-batch+seq*seq", 22),
        ("7", 7),
        ("seq-batch-1", 1),
    ],
)
def test_an_expression_has_a_value_at_sizes(text: str, value: int) -> None:
    assert parse_expression(text).value({"batch": 3, "seq": 5}) == value


@pytest.mark.parametrize(
    "text", ["", "?", "batch+", "+batch", "2 * seq", "seq/2", "(seq)", "1.5*seq", "seq**2", "séq"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_expression(text)


@pytest.mark.parametrize("text", ["*".join(["a"] * LENGTH_MAX), "+".join(["a"] * 65)])
def test_what_would_take_long_to_compute_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than"):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "linear"),
    [
        ("batch", Linear("batch", 1, 0)),
        ("2*seq+1", Linear("seq", 2, 1)),
        ("seq+seq-3", Linear("seq", 2, -3)),
        ("10-seq", Linear("seq", -1, 10)),
        ("7", None),
        ("batch*seq", None),
        ("seq*seq", None),
        ("batch+seq", None),
        ("0*seq+3", None),
    ],
)
def test_one_dimension_alone_can_be_solved_for(text: str, linear: Linear | None) -> None:
    assert parse_expression(text).linear() == linear


@given(st.integers(1, 9), st.integers(-20, 20), st.integers(1, 1000))
def test_solving_undoes_the_value(factor: int, offset: int, size: int) -> None:
    linear = Linear("n", factor, offset)
    assert linear.solve(factor * size + offset) == size
    if factor > 1:
        assert linear.solve(factor * size + offset + 1) is None


def test_a_relation_holds_or_not() -> None:
    relation = parse_relation("batch*seq <= 16")
    assert relation.holds({"batch": 4, "seq": 4}) and not relation.holds({"batch": 5, "seq": 4})
    assert relation.names() == {"batch", "seq"}


@pytest.mark.parametrize("text", ["batch < 8", "batch<=8", "batch <= 8 ", "a <= b <= c", "<= 8"])
def test_any_other_relation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_relation(text)
