"""The wire format: whatever parses comes back byte for byte, whatever does not is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.compile.binary import protobuf
from aotc.compile.binary.protobuf import Field
from aotc_runtime.formats.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT

NUMBERS = st.integers(1, 2**29 - 1)
FIELDS = st.one_of(
    st.builds(Field, NUMBERS, st.just(VARINT), st.integers(0, 2**64 - 1)),
    st.builds(Field, NUMBERS, st.just(BYTES), st.binary(max_size=40)),
    st.builds(Field, NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
    st.builds(Field, NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
)


@given(st.lists(FIELDS, max_size=8))
def test_fields_come_back_in_order(fields: list[Field]) -> None:
    assert protobuf.parse(protobuf.serialize(fields)) == fields


@given(st.lists(st.lists(FIELDS, max_size=4), max_size=4))
def test_nested_messages_come_back(messages: list[list[Field]]) -> None:
    outer = [Field(1, BYTES, protobuf.serialize(inner)) for inner in messages]
    parsed = protobuf.parse(protobuf.serialize(outer))
    assert [protobuf.message(field) for field in parsed] == messages


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        fields = protobuf.parse(data)
    except ValueError:
        return
    # Varints may be written longer than needed; the values are the same.
    assert protobuf.parse(protobuf.serialize(fields)) == fields


@given(st.lists(FIELDS, min_size=1, max_size=4), st.data())
def test_truncated_message_differs(fields: list[Field], data: st.DataObject) -> None:
    written = protobuf.serialize(fields)
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    with suppress(ValueError):
        assert protobuf.parse(cut) != fields


NO_MESSAGES = {
    "open varint": b"\x80",
    "endless varint": b"\xff" * 11,
    "field number 0": b"\x00\x01",
    "short text": b"\x0a\x05abc",
    "short fixed32": b"\x0d\x00\x00\x00",
    "short fixed64": b"\x09\x00\x00\x00\x00\x00\x00\x00",
    "groups": b"\x0b\x0c",
    "unknown wire type": b"\x0e\x00",
    "no value": b"\x08",
}


@pytest.mark.parametrize("data", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_bytes_that_are_no_message_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        protobuf.parse(data)


def test_a_field_that_is_a_number_holds_no_message() -> None:
    assert protobuf.message(Field(1, VARINT, 8)) is None
    assert protobuf.message(Field(1, FIXED32, b"\x08\x01\x08\x01")) is None
