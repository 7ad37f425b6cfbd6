"""Requests of gRPC are read as protobuf would read them, and cost what was asked for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc_runtime.base.errors import ServerError, refusal
from aotc_runtime.formats.protobuf_wire import WireError, read_varint
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType
from aotc_serve.grpc import grpc_messages as messages
from aotc_serve.grpc.grpc_inference import CONTENTS, _to_array
from aotc_serve.grpc.grpc_wire import FIELDS_MAX, InferRequest, InputTensor, model_of, read_request
from aotc_serve.inference.protocol_tensors import BYTES_WITHIN, Port, datatype_of, take_nothing

from ..samples import refused

INT64 = st.integers(-(2**63), 2**63 - 1)
PARAMETERS = st.dictionaries(
    st.text(max_size=9),
    st.one_of(st.booleans(), INT64, st.text(max_size=9), st.floats()),
    max_size=3,
)


def set_parameters(message: Any, given: dict[str, Any]) -> None:
    for name, value in given.items():
        field = {bool: "bool", int: "int64", str: "string", float: "double"}[type(value)]
        setattr(message.parameters[name], f"{field}_param", value)


@st.composite
def requests(draw: st.DrawFn) -> Any:
    message = messages.InferRequest(
        model_name=draw(st.text(max_size=9)),
        model_version=draw(st.text(max_size=9)),
        id=draw(st.text(max_size=9)),
        raw_input_contents=draw(st.lists(st.binary(max_size=300), max_size=3)),
    )
    set_parameters(message, draw(PARAMETERS))
    for _ in range(draw(st.integers(0, 3))):
        shape = draw(st.lists(INT64, max_size=5))
        tensor = message.inputs.add(name=draw(st.text(max_size=9)), datatype="INT64", shape=shape)
        set_parameters(tensor, draw(PARAMETERS))
        if draw(st.booleans()):
            tensor.contents.int64_contents.extend(draw(st.lists(INT64, max_size=9)))
    for _ in range(draw(st.integers(0, 2))):
        set_parameters(message.outputs.add(name=draw(st.text(max_size=9))), draw(PARAMETERS))
    return message


def plain(parameters: Any) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice"))
        for name, value in parameters.items()
    }


def same(found: dict[str, Any], expected: Any) -> bool:
    return repr(dict(sorted(found.items()))) == repr(dict(sorted(plain(expected).items())))


@given(requests())
def test_requests_are_read_as_protobuf_reads_them(message: Any) -> None:
    found = read_request(memoryview(message.SerializeToString()), take_nothing)
    assert found.model_name == message.model_name and found.id == message.id
    assert found.model_version == message.model_version
    assert [bytes(raw) for raw in found.raw] == list(message.raw_input_contents)
    assert same(found.parameters, message.parameters)
    for tensor, expected in zip(found.inputs, message.inputs, strict=True):
        assert (tensor.name, tensor.shape) == (expected.name, list(expected.shape))
        assert same(tensor.parameters, expected.parameters)
        assert (tensor.contents is not None) == expected.HasField("contents")
    for output, expected in zip(found.outputs, message.outputs, strict=True):
        assert output.name == expected.name and same(output.parameters, expected.parameters)


@given(requests(), st.data())
def test_damaged_requests_are_read_or_refused(message: Any, data: st.DataObject) -> None:
    whole = bytearray(message.SerializeToString() + b"\x0a\x01x")
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    part = memoryview(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    try:
        assert isinstance(read_request(part, take_nothing), InferRequest)
        model_of(part)
    except WireError:
        pass


@pytest.mark.parametrize("tag", [b"\x2a\x00", b"\x32\x00", b"\x3a\x00", b"\xfa\x01\x00"])
def test_fields_are_asked_for_and_counted_before_anything_is_made_of_them(tag: bytes) -> None:
    asked: list[int] = []
    with pytest.raises(WireError, match=f"more than {FIELDS_MAX} fields"):
        read_request(memoryview(tag * (FIELDS_MAX + 1)), asked.append)
    assert sum(asked) >= 200 * FIELDS_MAX

    def full(size: int) -> None:
        raise refusal("AOTC-E766", "server", "full")

    with pytest.raises(ServerError):
        read_request(memoryview(tag), full)


def test_a_request_names_its_model_first_or_nowhere_that_is_looked_for() -> None:
    named = b"\x0a\x01m\x12\x011"
    assert model_of(memoryview(named + b"\x2a\x00" * 100_000)) == ("m", "1")
    assert model_of(memoryview(b"\x2a\x00" + named)) is None
    assert model_of(memoryview(named * 10_000)) is None
    assert model_of(memoryview(b"")) == ("", "")


def port(dtype: DType) -> Port:
    return Port("x", datatype_of(dtype), numpy_dtype(dtype), (-1,), BYTES_WITHIN.get(dtype))


FIELDS = ("bool", "int", "int64", "uint", "uint64", "fp32", "fp64")


def tensor_of(dtype: DType, values: Any, *, packed: bool = True) -> InputTensor:
    """An input of typed contents, read from the message that has them."""
    message = messages.InferRequest()
    tensor = message.inputs.add(name="x", datatype=datatype_of(dtype), shape=[len(values)])
    field = FIELDS[CONTENTS[datatype_of(dtype)] - 1]
    getattr(tensor.contents, f"{field}_contents").extend(values)
    data = message.SerializeToString()
    if not packed:
        # One field for each value, as parsers of proto3 have to take them as well.
        number = CONTENTS[datatype_of(dtype)]
        contents = b"".join(bytes([number << 3, int(value)]) for value in values)
        shape = bytes([0x1A, 1, len(values)])
        inner = b"\x0a\x01x" + shape + bytes([0x2A, len(contents)]) + contents
        data = bytes([0x2A, len(inner)]) + inner
    return read_request(memoryview(data), take_nothing).inputs[0]


@pytest.mark.parametrize("dtype", [d for d in DType if datatype_of(d) in CONTENTS])
def test_typed_contents_of_every_type_come_back(dtype: DType) -> None:
    kind = numpy_dtype(dtype)
    if kind.kind == "b":
        values = np.arange(200_000) % 2 == 0
    elif kind.kind == "f":
        values = np.random.default_rng(0).standard_normal(1000).astype(kind)
    else:
        limits = np.iinfo(kind)
        some = np.random.default_rng(0).integers(
            limits.min, limits.max, 20_000, kind, endpoint=True
        )
        values = np.concatenate((some, np.array([limits.min, limits.max, 0, 1], kind)))
    found = _to_array(port(dtype), tensor_of(dtype, values.tolist()), take_nothing)
    assert found.dtype is kind and found.tobytes() == values.tobytes()
    if kind.kind != "f":
        few = [0, 1, 1, 0]
        alone = _to_array(port(dtype), tensor_of(dtype, few, packed=False), take_nothing)
        assert alone.tolist() == np.array(few, kind).tolist()


def contents(field: int, data: bytes, count: int) -> InputTensor:
    size = bytes([len(data) & 0x7F | 0x80, len(data) >> 7])
    inner = bytes([field << 3 | 2]) + size + data
    size = bytes([len(inner) & 0x7F | 0x80, len(inner) >> 7])
    whole = bytes([0x1A, 1, count, 0x2A]) + size + inner
    size = bytes([len(whole) & 0x7F | 0x80, len(whole) >> 7])
    return read_request(memoryview(b"\x2a" + size + whole), take_nothing).inputs[0]


@pytest.mark.parametrize(
    ("dtype", "field", "data", "count"),
    [
        (DType.INT8, 2, b"\x80\x01", 1),
        (DType.UINT8, 4, b"\x80\x02", 1),
        (DType.INT32, 2, b"\x01\x02", 1),
        (DType.INT32, 2, b"\x80" * 11 + b"\x01", 1),
        (DType.INT32, 2, b"\x80", 0),
        (DType.INT32, 3, b"\x01", 1),
        (DType.FLOAT32, 6, b"\0\0\0", 1),
        (DType.FLOAT32, 1, b"\x01", 1),
    ],
)
def test_typed_contents_must_fit(dtype: DType, field: int, data: bytes, count: int) -> None:
    with refused("AOTC-E761"):
        _to_array(port(dtype), contents(field, data, count), take_nothing)


def test_a_number_of_more_than_64_bits_is_rejected() -> None:
    assert read_varint(b"\xff" * 9 + b"\x01", 0, 10) == (2**64 - 1, 10)
    with pytest.raises(WireError, match="more than 64 bits"):
        read_varint(b"\xff" * 10 + b"\x01", 0, 11)
