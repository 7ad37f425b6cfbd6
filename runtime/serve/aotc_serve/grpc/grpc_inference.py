"""Inference requests and answers of gRPC: raw or typed tensors as numpy, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from aotc_runtime.formats.protobuf_wire import write_varint
from aotc_serve.grpc import grpc_messages as messages
from aotc_serve.grpc.grpc_wire import Contents, InferRequest, InputTensor
from aotc_serve.inference.inference_requests import (
    Outcome,
    Prepared,
    complete,
    find_input,
    outputs_of,
    refuse_large,
    refuse_misshapen,
    refuse_what_is_not_offered,
)
from aotc_serve.inference.protocol_tensors import (
    Array,
    Port,
    Take,
    from_bytes,
    invalid_request,
    to_bytes,
)
from aotc_serve.inference.request_memory import COSTS
from aotc_serve.inference.served_models import Model

BOOL, INT, INT64, UINT, UINT64, FP32, FP64 = range(1, 8)

CONTENTS = {
    "BOOL": BOOL,
    "INT8": INT,
    "INT16": INT,
    "INT32": INT,
    "INT64": INT64,
    "UINT8": UINT,
    "UINT16": UINT,
    "UINT32": UINT,
    "UINT64": UINT64,
    "FP32": FP32,
    "FP64": FP64,
}
"""The field of typed contents, by datatype; others come raw."""

RAW_OUTPUT = b"\x32"
"""The tag of `raw_output_contents`, field 6 of the answer."""

PIECE_BYTES = 2**16
"""Bytes of varints that are decoded at once."""

VARINT_BYTES_MAX = 10


def prepare(model: Model, request: InferRequest, tensor_bytes_max: int, take: Take) -> Prepared:
    """Return arguments from raw contents, or from typed ones.

    Names, datatypes and shapes are compared with the model's before any value is read.
    Raises ServerError (AOTC-E761, E763, E766, E767), ShapeError (AOTC-E606, E612).
    """
    refuse_what_is_not_offered(request.parameters, "request")
    raw = request.raw
    if raw and len(raw) != len(request.inputs):
        expected = f"{len(request.inputs)}, one for each input"
        raise invalid_request("raw_input_contents", str(len(raw)), expected)
    arrays: list[Array | None] = [None] * len(model.inputs)
    for number, tensor in enumerate(request.inputs):
        refuse_what_is_not_offered(tensor.parameters, f"input {tensor.name[:100]}")
        place, port = find_input(model, arrays, tensor.name, tensor.datatype)
        if any(axis < 0 for axis in tensor.shape):
            found = str(tensor.shape)
            raise invalid_request(f"input {port.name}", found, "a shape without negative axes")
        refuse_misshapen(port, tensor.shape)
        refuse_large(port, tensor.shape, tensor_bytes_max)
        if raw:
            if tensor.contents is not None:
                raise invalid_request(f"input {port.name}", "both", "raw or typed contents")
            arrays[place] = from_bytes(port, tensor.shape, raw[number], take)
        else:
            arrays[place] = _to_array(port, tensor, take)
    for output in request.outputs:
        refuse_what_is_not_offered(output.parameters, f"output {output.name[:100]}")
    wanted = [(output.name, True) for output in request.outputs]
    return Prepared(request.id, complete(model, arrays), outputs_of(model, wanted, True))


def _to_array(port: Port, tensor: InputTensor, take: Take) -> Array:
    """Raises ServerError: AOTC-E761, E766."""
    found, field = tensor.contents or {}, CONTENTS.get(port.datatype)
    if field is None or found.keys() - {field}:
        expected = f"field {field} of its contents" if field else "raw contents"
        others = ", ".join(map(str, sorted(found.keys() - {field}))) or "none"
        raise invalid_request(
            f"input {port.name}", f"fields {others}", f"{expected} for {port.datatype}"
        )
    contents = found.get(field, Contents([], []))
    if field in (FP32, FP64):
        if contents.single:
            raise invalid_request(f"input {port.name}", "varints", f"values of {port.datatype}")
        take(sum(map(len, contents.packed)))
        return from_bytes(port, tensor.shape, b"".join(contents.packed), take)
    return _integers(port, tensor.shape, contents, take)


def _integers(port: Port, shape: Sequence[int], contents: Contents, take: Take) -> Array:
    """Raises ServerError: AOTC-E761, E766."""
    where, count = f"input {port.name}", prod(shape)
    packed = [np.frombuffer(each, np.uint8) for each in contents.packed]
    found = len(contents.single) + sum(_count(each) for each in packed)
    if found != count:
        expected = f"{count} values for {port.datatype}{list(shape)}"
        raise invalid_request(where, f"{found} values", expected)
    take(count * port.dtype.itemsize)
    array, end = np.empty(count, port.dtype), 0
    pieces = [piece for each in packed for piece in _pieces(each, port)]
    for values in (np.array(contents.single, np.uint64), *map(_values, pieces)):
        start, end = end, end + values.size
        array[start:end] = _cast(port, values)
    return array.reshape(shape)


def _count(data: Array) -> int:
    """Return the number of varints."""
    return sum(
        int(np.count_nonzero(data[start : start + PIECE_BYTES] < 0x80))
        for start in range(0, data.size, PIECE_BYTES)
    )


def _pieces(data: Array, port: Port) -> Iterator[Array]:
    """Yield the varints, cut behind the last byte of one. Raises ServerError (AOTC-E761)."""
    start = 0
    while start < data.size:
        piece = data[start : start + PIECE_BYTES]
        ends = np.flatnonzero(piece < 0x80)
        if not ends.size or np.diff(ends, prepend=-1).max() > VARINT_BYTES_MAX:
            raise invalid_request(f"input {port.name}", "a number of more than 64 bits", "varints")
        start += int(ends[-1]) + 1
        yield piece[: ends[-1] + 1]


def _values(data: Array) -> Array:
    """Return the numbers whose varints these bytes are."""
    ends = np.flatnonzero(data < 0x80)
    if ends.size == data.size:
        return data.astype(np.uint64)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    values = np.zeros(ends.size, np.uint64)
    for place in range(int(lengths.max())):
        has = lengths > place
        bits = (data[starts[has] + place] & 0x7F).astype(np.uint64)
        values[has] |= bits << np.uint64(7 * place)
    return values


def _cast(port: Port, values: Array) -> Array:
    """Raises ServerError (AOTC-E761) for numbers that the datatype does not have."""
    if port.dtype.kind == "b":
        return values.astype(port.dtype)
    if not port.datatype.startswith("UINT"):
        values = values.view(np.int64)
    limits = np.iinfo(port.dtype)
    if values.size and not (limits.min <= values.min() and values.max() <= limits.max):
        found, expected = "a number beyond its range", f"values of {port.datatype}"
        raise invalid_request(f"input {port.name}", found, expected)
    return values.astype(port.dtype)


def encode_response(outcome: Outcome, take: Take) -> bytes:
    """Return the message of an answer. Raises ServerError (AOTC-E766)."""
    model, prepared = outcome.model, outcome.prepared
    take(COSTS.grpc_answer * sum(outcome.arrays[place].nbytes for place, _ in prepared.outputs))
    answer = messages.InferResponse(
        model_name=model.name, model_version=model.version, id=prepared.id
    )
    for name, value in outcome.parameters.items():
        parameter = answer.parameters[name]
        if isinstance(value, int):
            parameter.int64_param = value
        else:
            parameter.string_param = str(value)
    parts: list[bytes | memoryview] = [b""]
    for place, _ in prepared.outputs:
        port, array = model.outputs[place], outcome.arrays[place]
        answer.outputs.add(name=port.name, datatype=port.datatype, shape=array.shape)
        data = to_bytes(array)
        parts += [RAW_OUTPUT, write_varint(len(data)), data]
    # A message is what its parts are, one behind the other.
    parts[0] = answer.SerializeToString()
    return b"".join(parts)
