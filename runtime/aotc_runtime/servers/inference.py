"""Inference requests: from what a protocol carries to arrays, a call, and back.

Both protocols use the same three steps: `Prepared` arguments, the model's call, an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from aotc_runtime.errors import refusal
from aotc_runtime.servers.models import Model
from aotc_runtime.servers.tensors import (
    RANK_MAX,
    Array,
    Port,
    from_bytes,
    from_json,
    misfit,
    to_bytes,
    to_values,
)
from aotc_runtime.serving.tallies import Answer
from aotc_runtime.words import did_you_mean

Parameters = dict[str, Any]

_Axis = Annotated[int, Meta(ge=0, le=2**40)]


class Tensor(Struct, forbid_unknown_fields=True):
    """An input as JSON describes it."""

    name: str
    shape: list[_Axis]
    datatype: str
    parameters: Parameters = {}
    data: Raw | UnsetType = UNSET


class Wanted(Struct, forbid_unknown_fields=True):
    """An output that the client asks for."""

    name: str
    parameters: Parameters = {}


class Request(Struct, forbid_unknown_fields=True):
    """The JSON of a request."""

    inputs: list[Tensor]
    id: str = ""
    parameters: Parameters = {}
    outputs: list[Wanted] = []


class Prepared(Struct, frozen=True):
    """What a request asks of a model. outputs: places of those that it wants, and whether in
    binary.
    """

    id: str
    arrays: list[Array]
    outputs: list[tuple[int, bool]]


class Outcome(Struct, frozen=True):
    """What a request got. parameters: what served it, for the answer."""

    model: Model
    prepared: Prepared
    arrays: list[Array]
    parameters: Parameters


class Form(Struct, frozen=True):
    """What the JSON before binary tensors says, checked: where each tensor lies behind it.

    inputs: place, tensor, shape, first and last byte.
    """

    id: str
    inputs: tuple[tuple[int, Port, list[int], int, int], ...]
    outputs: list[tuple[int, bool]]


_decoder = msgspec.json.Decoder(Request)


def read_request(header: bytes | memoryview) -> Request:
    """The JSON of a request. Raises ServerError (AOTC-E761)."""
    try:
        return _decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise misfit("request", str(error), "the JSON of an inference request") from None


def prepare(model: Model, request: Request, data: memoryview, tensor_bytes_max: int) -> Prepared:
    """Arguments from JSON, and from the binary data behind it.

    Raises ServerError (AOTC-E761, E763, E767), ShapeError (AOTC-E606).
    """
    arrays: list[Array | None] = [None] * len(model.inputs)
    start = 0
    refuse_what_is_not_offered(request.parameters, "request")
    for tensor in request.inputs:
        where = f"input {tensor.name}"
        refuse_what_is_not_offered(tensor.parameters, where)
        place, port = placed(model, arrays, tensor.name, tensor.datatype)
        refuse_large(port, tensor.shape, tensor_bytes_max)
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            if tensor.data is UNSET:
                raise misfit(where, "neither", "`data`, or `binary_data_size`")
            arrays[place] = from_json(port, tensor.shape, tensor.data)
            continue
        if tensor.data is not UNSET:
            raise misfit(where, "both", "`data` or `binary_data_size`")
        if type(size) is not int or not 0 <= size <= len(data) - start:
            expected = f"a size of at most the {len(data) - start} bytes that are left"
            raise misfit(where, f"binary_data_size {size}", expected)
        arrays[place] = from_bytes(port, tensor.shape, data[start : start + size])
        start += size
    if start != len(data):
        raise misfit("request", f"{len(data)}", f"{start} bytes of binary data")
    binary = bool(request.parameters.get("binary_data_output", False))
    wanted = [
        (output.name, bool(output.parameters.get("binary_data", binary)))
        for output in request.outputs
    ]
    for output in request.outputs:
        refuse_what_is_not_offered(output.parameters, f"output {output.name}")
    return Prepared(request.id, complete(model, arrays), outputs_of(model, wanted, binary))


def prepared(model: Model, header: memoryview, data: memoryview, tensor_bytes_max: int) -> Prepared:
    """Arguments of a request in JSON, or with binary data behind it. Clients send the same JSON
    with every request; it is read and checked once. Raises what `prepare` raises.
    """
    if len(header) > FORM_BYTES_MAX:
        return prepare(model, read_request(header), data, tensor_bytes_max)
    key = bytes(header), len(data), tensor_bytes_max
    form: Form | None = model.forms.get(key)
    if form is None:
        request = read_request(header)
        found = prepare(model, request, data, tensor_bytes_max)
        form = _form(model, request, found)
        if form is not None:
            if len(model.forms) >= FORMS_MOST:
                model.forms.clear()
            model.forms[key] = form
        return found
    arrays: list[Any] = [None] * len(form.inputs)
    for place, port, shape, start, end in form.inputs:
        arrays[place] = from_bytes(port, shape, data[start:end])
    return Prepared(form.id, arrays, form.outputs)


FORM_BYTES_MAX, FORMS_MOST = 1024, 128
"""Bytes of a form, and forms of a model, that are kept."""


def _form(model: Model, request: Request, found: Prepared) -> Form | None:
    """The form of a request that was found good; None if its tensors are JSON."""
    inputs, start = [], 0
    for tensor in request.inputs:
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            return None
        place = model.place_of[tensor.name]
        inputs.append((place, model.inputs[place], tensor.shape, start, start + size))
        start += size
    return Form(found.id, tuple(inputs), found.outputs)


def placed(
    model: Model, arrays: Sequence[Array | None], name: str, datatype: str
) -> tuple[int, Port]:
    """The place of an input. Raises ServerError (AOTC-E761), ShapeError (AOTC-E606)."""
    place = model.place_of.get(name)
    if place is None:
        raise refusal(
            "AOTC-E761",
            f"input {name}",
            "an input that the model does not have",
            expected="one of " + (", ".join(model.place_of) or "none"),
            hint=did_you_mean(name, model.place_of, "GET /v2/models/NAME lists the inputs"),
        )
    if arrays[place] is not None:
        raise misfit(f"input {name}", "it twice", "each input once")
    port = model.inputs[place]
    if datatype != port.datatype:
        raise refusal(
            "AOTC-E606",
            f"input {name}",
            datatype,
            expected=port.datatype,
            hint=f"send {port.datatype}; nothing is cast silently",
        )
    return place, port


def refuse_large(port: Port, shape: Sequence[int], limit: int) -> None:
    """Raises ServerError: AOTC-E763 for a tensor of more bytes than that, E761 for one of more axes
    than any array has, which would take long to multiply.
    """
    if len(shape) > RANK_MAX:
        raise misfit(f"input {port.name}", f"{len(shape)} axes", f"at most {RANK_MAX}")
    size = prod(shape) * port.dtype.itemsize
    if size > limit:
        raise refusal(
            "AOTC-E763",
            f"input {port.name}",
            f"{size} bytes",
            expected=f"at most {limit} bytes for a tensor",
            hint="send less at once, or start the server with a higher --max-tensor",
        )


def complete(model: Model, arrays: Sequence[Array | None]) -> list[Array]:
    """All arguments. Raises ServerError (AOTC-E761) if one is missing."""
    missing = [port.name for port, array in zip(model.inputs, arrays, strict=True) if array is None]
    if missing:
        raise misfit(f"model {model.name}", "none for " + ", ".join(missing), "every input")
    return [array for array in arrays if array is not None]


def outputs_of(
    model: Model, wanted: Sequence[tuple[str, bool]], binary: bool
) -> list[tuple[int, bool]]:
    """The places of what is wanted; everything, if nothing is named. Raises ServerError
    (AOTC-E761).
    """
    if not wanted:
        return [(place, binary) for place in range(len(model.outputs))]
    found: list[tuple[int, bool]] = []
    for name, is_binary in wanted:
        place = model.output_of.get(name)
        if place is None or place in (known for known, _ in found):
            raise refusal(
                "AOTC-E761",
                f"output {name}",
                "it twice" if place is not None else "an output that the model does not have",
                expected="each once of " + ", ".join(model.output_of),
                hint=did_you_mean(name, model.output_of, "GET /v2/models/NAME lists the outputs"),
            )
        found.append((place, is_binary))
    return found


_NOT_OFFERED = (
    "shared_memory_region",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "classification",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
)
"""Parameters of extensions that would change the answer; others are left alone."""


def refuse_what_is_not_offered(parameters: Mapping[str, Any], where: str) -> None:
    """Raises ServerError (AOTC-E767)."""
    for name in parameters:
        if name in _NOT_OFFERED and parameters[name]:
            raise refusal(
                "AOTC-E767",
                where,
                f"the parameter {name}",
                expected="the extensions that GET /v2 lists",
                hint=f"leave {name} out",
            )


def outcome(model: Model, prepared: Prepared, answer: Answer, **more: Any) -> Outcome:
    """What a call gave. more: beside the profile, what is told about how it was served."""
    parameters = {"profile": answer.executable, "path": answer.path.value, **more}
    return Outcome(model, prepared, answer.result, parameters)


def json_answer(outcome: Outcome) -> tuple[bytes, list[memoryview]]:
    """The JSON of an answer, and the binary data behind it. Raises ServerError (AOTC-E769)."""
    outputs: list[dict[str, Any]] = []
    parts: list[memoryview] = []
    for place, binary in outcome.prepared.outputs:
        port, array = outcome.model.outputs[place], outcome.arrays[place]
        described: dict[str, Any] = {
            "name": port.name,
            "datatype": port.datatype,
            "shape": array.shape,
        }
        if binary:
            data = to_bytes(array)
            parts.append(data)
            described["parameters"] = {"binary_data_size": len(data)}
        else:
            described["data"] = to_values(port, array)
        outputs.append(described)
    document: dict[str, Any] = {
        "model_name": outcome.model.name,
        "model_version": outcome.model.version,
        "parameters": outcome.parameters,
        "outputs": outputs,
    }
    if outcome.prepared.id:
        document["id"] = outcome.prepared.id
    return msgspec.json.encode(document), parts
