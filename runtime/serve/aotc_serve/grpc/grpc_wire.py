"""Read a ModelInferRequest from its bytes, without the objects that protobuf would make of it.

Fields are counted, and their memory is requested, before anything is made of them; contents of
tensors stay slices of the message. Numbers of fields are those of `grpc_messages.MESSAGES`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec import Struct

from aotc_runtime.formats.protobuf_wire import FIXED64, VARINT, WireError, read_field, read_varint
from aotc_serve.inference.protocol_tensors import RANK_MAX, Take
from aotc_serve.inference.request_memory import COSTS

FIELDS_MAX = 2**14
"""Fields of one message, with those of the messages within it."""

TEXT_BYTES_MAX = 2**16
"""Bytes of a name, an id or a text parameter."""

STEP_FIELDS = 256
"""Fields that are asked for at once."""

type Parameter = bool | int | float | str | None
type Parameters = dict[str, Parameter]


class Contents(Struct):
    """Contents of one field of a tensor: `packed` bytes of values, and `single` values."""

    packed: list[memoryview]
    single: list[int]


class InputTensor(Struct):
    """An input; `contents` is None if the message has none."""

    name: str = ""
    datatype: str = ""
    shape: list[int] = []
    parameters: Parameters = {}
    contents: dict[int, Contents] | None = None


class RequestedOutput(Struct):
    """An output that the client asks for."""

    name: str = ""
    parameters: Parameters = {}


class InferRequest(Struct):
    """A request; raw: slices of the message."""

    model_name: str = ""
    model_version: str = ""
    id: str = ""
    parameters: Parameters = {}
    inputs: list[InputTensor] = []
    outputs: list[RequestedOutput] = []
    raw: list[memoryview] = []


def model_of(data: memoryview) -> tuple[str, str] | None:
    """Return the model and version that a message names, as far as they come first.

    None if they may stand further behind, as no known client writes them. Raises WireError.
    """
    found = {1: "", 2: ""}
    for count, (number, _, value) in enumerate(_Reader(lambda size: None).fields(data)):
        if number not in found:
            return (found[1], found[2]) if found[1] else None
        if count >= STEP_FIELDS:
            return None
        found[number] = _text(value)
    return found[1], found[2]


def read_request(data: memoryview, take: Take) -> InferRequest:
    """Read a message. Raises WireError, ServerError (AOTC-E766)."""
    return _Reader(take).request(data)


class _Reader:
    def __init__(self, take: Take) -> None:
        self._take, self._fields = take, 0

    def fields(self, data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
        """Number, kind and value of each field: an integer, or the bytes."""
        at, end = 0, len(data)
        while at < end:
            if self._fields % STEP_FIELDS == 0:
                if self._fields >= FIELDS_MAX:
                    raise WireError(f"more than {FIELDS_MAX} fields")
                self._take(STEP_FIELDS * COSTS.grpc_field)
            self._fields += 1
            number, kind, value, at = read_field(data, at, end)
            yield number, kind, value if kind == VARINT else data[value:at]

    def request(self, data: memoryview) -> InferRequest:
        found = InferRequest()
        for number, _, value in self.fields(data):
            if number == 1:
                found.model_name = _text(value)
            elif number == 2:
                found.model_version = _text(value)
            elif number == 3:
                found.id = _text(value)
            elif number == 4:
                self._parameter(value, found.parameters)
            elif number == 5:
                found.inputs.append(self._input(_bytes(value)))
            elif number == 6:
                found.outputs.append(self._output(_bytes(value)))
            elif number == 7:
                found.raw.append(_bytes(value))
        return found

    def _input(self, data: memoryview) -> InputTensor:
        found = InputTensor()
        for number, _, value in self.fields(data):
            if number == 1:
                found.name = _text(value)
            elif number == 2:
                found.datatype = _text(value)
            elif number == 3:
                found.shape += self._shape(value, len(found.shape))
            elif number == 4:
                self._parameter(value, found.parameters)
            elif number == 5:
                found.contents = {} if found.contents is None else found.contents
                self._contents(_bytes(value), found.contents)
        return found

    def _shape(self, value: int | memoryview, known: int) -> list[int]:
        if isinstance(value, int):
            axes = [_to_signed(value)]
        else:
            axes, at = [], 0
            while at < len(value):
                axis, at = read_varint(value, at, len(value))
                axes.append(_to_signed(axis))
                if known + len(axes) > RANK_MAX:
                    break
        if known + len(axes) > RANK_MAX:
            raise WireError(f"a shape of more than {RANK_MAX} axes")
        return axes

    def _contents(self, data: memoryview, found: dict[int, Contents]) -> None:
        for number, _, value in self.fields(data):
            contents = found.setdefault(number, Contents([], []))
            if isinstance(value, int):
                contents.single.append(value)
            else:
                contents.packed.append(value)

    def _output(self, data: memoryview) -> RequestedOutput:
        found = RequestedOutput()
        for number, _, value in self.fields(data):
            if number == 1:
                found.name = _text(value)
            elif number == 2:
                self._parameter(value, found.parameters)
        return found

    def _parameter(self, entry: int | memoryview, found: Parameters) -> None:
        """Add an entry of a map."""
        name, parameter = "", None
        for number, _, value in self.fields(_bytes(entry)):
            if number == 1:
                name = _text(value)
            elif number == 2:
                for chosen, kind, each in self.fields(_bytes(value)):
                    parameter = _chosen(chosen, kind, each)
        found[name] = parameter


def _chosen(number: int, kind: int, value: int | memoryview) -> Parameter:
    """Return the value of an InferParameter."""
    if number == 3:
        return _text(value)
    if number == 4 and kind == FIXED64:
        found: float = struct.unpack("<d", _bytes(value))[0]
        return found
    if isinstance(value, int):
        return {1: bool(value), 2: _to_signed(value), 5: value}.get(number)
    raise WireError(f"a parameter's field {number} of the kind {kind}")


def _to_signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise WireError("a number where bytes belong")
    return value


def _text(value: int | memoryview) -> str:
    data = _bytes(value)
    if len(data) > TEXT_BYTES_MAX:
        raise WireError(f"a text of more than {TEXT_BYTES_MAX} bytes")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise WireError("a text that is not UTF-8") from None
