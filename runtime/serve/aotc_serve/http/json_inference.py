"""Inference requests and answers as JSON, with binary data behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from aotc_serve.inference.inference_requests import (
    NAME_MAX,
    Outcome,
    Parameters,
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
    from_json,
    invalid_request,
    take_nothing,
    to_bytes,
    to_json,
)
from aotc_serve.inference.request_memory import COSTS
from aotc_serve.inference.served_models import Model

_Axis = Annotated[int, Meta(ge=0, le=2**40)]


class Tensor(Struct, forbid_unknown_fields=True):
    """An input as JSON describes it."""

    name: str
    shape: Raw
    datatype: str
    parameters: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET


class Wanted(Struct, forbid_unknown_fields=True):
    """An output that the client asks for."""

    name: str
    parameters: Raw | UnsetType = UNSET


class Request(Struct, forbid_unknown_fields=True):
    """The JSON of a request."""

    inputs: list[Tensor]
    id: str | None = None
    parameters: Raw | UnsetType = UNSET
    outputs: list[Wanted] | None = None


class Form(Struct, frozen=True):
    """The parsed JSON before binary tensors, with the offset of each tensor.

    `inputs` has the index, the tensor, the shape, and the first and last byte of each.
    """

    id: str
    inputs: tuple[tuple[int, Port, Sequence[int], int, int], ...]
    outputs: list[tuple[int, bool]]


_decoder = msgspec.json.Decoder(Request)
_parameters_decoder = msgspec.json.Decoder(dict[str, str | bool | int | float | None] | None)
_shape_decoder = msgspec.json.Decoder(list[_Axis])

OBJECTS_MAX = 2**14
"""Braces that the JSON of a request may have: each may become an object of Python's."""

SHAPE_BYTES_MAX, ID_MAX = 1024, 2**16
"""Bytes of the JSON of a shape, and characters of a request's id."""


def read_request(header: bytes | memoryview) -> Request:
    """Return the JSON of a request. Raises ServerError (AOTC-E761)."""
    if len(header) > OBJECTS_MAX and bytes(header).count(b"{") > OBJECTS_MAX:
        raise invalid_request("request", "more", f"at most {OBJECTS_MAX} objects")
    try:
        return _decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise invalid_request("request", str(error), "the JSON of an inference request") from None


def shape_of(tensor: Tensor, where: str) -> list[int]:
    """Raises ServerError (AOTC-E761)."""
    if len(memoryview(tensor.shape)) > SHAPE_BYTES_MAX:
        raise invalid_request(where, "more", f"a shape of at most {SHAPE_BYTES_MAX} bytes")
    try:
        return _shape_decoder.decode(tensor.shape)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise invalid_request(where, str(error), "a shape") from None


def prepare(
    model: Model, request: Request, data: memoryview, tensor_bytes_max: int, take: Take
) -> Prepared:
    """Return arguments from JSON, and from the binary data behind it.

    Names, datatypes and shapes are compared with the model's before any value is read.
    Raises ServerError (AOTC-E761, E763, E766, E767), ShapeError (AOTC-E606, E612).
    """
    arrays: list[Array | None] = [None] * len(model.inputs)
    start = 0
    asked = _parameters(request.parameters, "request")
    for tensor in request.inputs:
        where = f"input {tensor.name[:NAME_MAX]}"
        parameters = _parameters(tensor.parameters, where)
        place, port = find_input(model, arrays, tensor.name, tensor.datatype)
        shape = shape_of(tensor, where)
        refuse_misshapen(port, shape)
        refuse_large(port, shape, tensor_bytes_max)
        size = parameters.get("binary_data_size")
        if size is None:
            if tensor.data is UNSET:
                raise invalid_request(where, "neither", "`data`, or `binary_data_size`")
            arrays[place] = from_json(port, shape, tensor.data, take)
            continue
        if tensor.data is not UNSET:
            raise invalid_request(where, "both", "`data` or `binary_data_size`")
        if type(size) is not int or not 0 <= size <= len(data) - start:
            expected = f"a size of at most the {len(data) - start} bytes that are left"
            raise invalid_request(where, f"binary_data_size {size}", expected)
        arrays[place] = from_bytes(port, shape, data[start : start + size], take)
        start += size
    if start != len(data):
        raise invalid_request("request", f"{len(data)}", f"{start} bytes of binary data")
    binary = _flag(asked, "binary_data_output", "request", otherwise=False)
    wanted = []
    for output in request.outputs or ():
        where = f"output {output.name[:NAME_MAX]}"
        parameters = _parameters(output.parameters, where)
        wanted.append((output.name, _flag(parameters, "binary_data", where, otherwise=binary)))
    if len(request.id or "") > ID_MAX:
        raise invalid_request("request", "more", f"an id of at most {ID_MAX} characters")
    return Prepared(request.id or "", complete(model, arrays), outputs_of(model, wanted, binary))


PARAMETERS_BYTES_MAX = 2**16
"""The most that one JSON object of parameters may have: in Python each byte takes up to twenty."""


def _parameters(raw: Raw | UnsetType, where: str) -> Parameters:
    """Raises ServerError (AOTC-E761, E767)."""
    if raw is UNSET:
        return {}
    if len(memoryview(raw)) > PARAMETERS_BYTES_MAX:
        raise invalid_request(where, "more", f"parameters of at most {PARAMETERS_BYTES_MAX} bytes")
    try:
        found = _parameters_decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise invalid_request(
            where, str(error), "parameters that are words, numbers or booleans"
        ) from None
    refuse_what_is_not_offered(found or {}, where)
    return found or {}


def _flag(parameters: Parameters, name: str, where: str, *, otherwise: bool) -> bool:
    """Raises ServerError (AOTC-E761)."""
    found = parameters.get(name, otherwise)
    if not isinstance(found, bool):
        raise invalid_request(where, f"the parameter {name} as {found!r:.100}", "true or false")
    return found


def prepare_call(
    model: Model,
    header: memoryview,
    data: memoryview,
    tensor_bytes_max: int,
    take: Take = take_nothing,
) -> Prepared:
    """Return the arguments of a request in JSON, optionally with binary data.

    Clients repeat their JSON, so it is parsed once. Raises what `prepare` raises.
    """
    if len(header) > FORM_BYTES_MAX:
        take(COSTS.json * len(header))
        return prepare(model, read_request(header), data, tensor_bytes_max, take)
    key = bytes(header), len(data), tensor_bytes_max
    form: Form | None = model.forms.get(key)
    if form is None:
        request = read_request(header)
        found = prepare(model, request, data, tensor_bytes_max, take)
        form = _form(model, request, found)
        if form is not None:
            if len(model.forms) >= FORMS_MOST:
                model.forms.clear()
            model.forms[key] = form
        return found
    arrays: list[Any] = [None] * len(form.inputs)
    for place, port, shape, start, end in form.inputs:
        arrays[place] = from_bytes(port, shape, data[start:end], take)
    return Prepared(form.id, arrays, form.outputs)


FORM_BYTES_MAX, FORMS_MOST = 1024, 128
"""Bytes of a form, and forms of a model, that are kept."""


def _form(model: Model, request: Request, found: Prepared) -> Form | None:
    """Return the form of a request that was found good; None if its tensors are JSON."""
    inputs, start = [], 0
    for tensor in request.inputs:
        if tensor.data is not UNSET:
            return None
        place = model.place_of[tensor.name]
        array = found.arrays[place]
        end = start + array.nbytes
        inputs.append((place, model.inputs[place], array.shape, start, end))
        start = end
    return Form(found.id, tuple(inputs), found.outputs)


def metadata_of(port: Port) -> dict[str, Any]:
    """Return an input or output, as in the metadata of a model."""
    return {"name": port.name, "datatype": port.datatype, "shape": port.shape}


def json_answer(outcome: Outcome, take: Take) -> tuple[bytes, list[memoryview]]:
    """Return a response's JSON and binary data. Raises ServerError: AOTC-E766, E769."""
    outputs: list[dict[str, Any]] = []
    parts: list[memoryview] = []
    for place, binary in outcome.prepared.outputs:
        port, array = outcome.model.outputs[place], outcome.arrays[place]
        described: dict[str, Any] = metadata_of(port) | {"shape": array.shape}
        if binary:
            data = to_bytes(array)
            take(len(data))
            parts.append(data)
            described["parameters"] = {"binary_data_size": len(data)}
        else:
            take(COSTS.json_value * array.size)
            described["data"] = Raw(to_json(port, array))
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
