"""Inference requests of both protocols: what they ask of a model, and what they get.

From what a protocol carries to `Prepared` arguments, the model's call, an `Outcome`, and back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.serving.call_metrics import Answer
from aotc_serve.inference.protocol_tensors import RANK_MAX, Array, Port, invalid_request
from aotc_serve.inference.served_models import Model

Parameters = dict[str, Any]

NAME_MAX = 100
"""Characters of a client's word that are told back."""


class Prepared(Struct, frozen=True):
    """A parsed request; `outputs` are indices, and whether each is sent in binary."""

    id: str
    arrays: list[Array]
    outputs: list[tuple[int, bool]]


class Outcome(Struct, frozen=True):
    """The result of a request, and the response's parameters, with executable and path."""

    model: Model
    prepared: Prepared
    arrays: list[Array]
    parameters: Parameters


def find_input(
    model: Model, arrays: Sequence[Array | None], name: str, datatype: str
) -> tuple[int, Port]:
    """Return the place of an input. Raises ServerError (AOTC-E761), ShapeError (AOTC-E606)."""
    place = model.place_of.get(name)
    if place is None:
        raise _unknown("request inputs", name, model.place_of, "unknown-input")
    if arrays[place] is not None:
        raise refusal("AOTC-E761", f"input {name}", "", cause="tensor-named-twice")
    port = model.inputs[place]
    if datatype != port.datatype:
        found, hint = datatype[:NAME_MAX], f"send {port.datatype}"
        raise refusal("AOTC-E606", f"input {name}", found, expected=port.datatype, hint=hint)
    return place, port


def _unknown(where: str, name: str, known: Collection[str], cause: str) -> AotcError:
    found, expected = name[:NAME_MAX], "one of: " + (", ".join(known) or "none")
    hint = did_you_mean(found, known, "") or None
    return refusal("AOTC-E761", where, found, cause=cause, expected=expected, hint=hint)


def refuse_misshapen(port: Port, shape: Sequence[int]) -> None:
    """Raises ShapeError (AOTC-E612) for a shape that the model does not take."""
    is_fit = len(shape) == len(port.shape) and all(
        wanted in (-1, size) for wanted, size in zip(port.shape, shape, strict=True)
    )
    if not is_fit and len(shape) <= RANK_MAX:
        found, expected = f"{port.datatype}{list(shape)}", f"{port.datatype}{list(port.shape)}"
        hint = "send the shape that `GET /v2/models/NAME` lists (-1: any size)"
        raise refusal("AOTC-E612", f"input {port.name}", found, expected=expected, hint=hint)


def refuse_large(port: Port, shape: Sequence[int], limit: int) -> None:
    """Raise ServerError for a tensor that is too large.

    AOTC-E763 for more bytes than the limit, E761 for more axes than an array can have.
    """
    if len(shape) > RANK_MAX:
        raise invalid_request(f"input {port.name}", f"{len(shape)} axes", f"at most {RANK_MAX}")
    size = prod(shape) * port.dtype.itemsize
    if size > limit:
        where, found, expected = f"input {port.name}", f"{size} bytes", f"at most {limit} bytes"
        cause = "tensor-exceeds-the-size-limit"
        raise refusal("AOTC-E763", where, found, cause=cause, expected=expected)


def complete(model: Model, arrays: Sequence[Array | None]) -> list[Array]:
    """Return all arguments. Raises ServerError (AOTC-E761) if one is missing."""
    missing = [port.name for port, array in zip(model.inputs, arrays, strict=True) if array is None]
    if missing:
        where, expected = f"model {model.name}", ", ".join(missing)
        raise refusal("AOTC-E761", where, "", cause="missing-input", expected=expected)
    return [array for array in arrays if array is not None]


def outputs_of(
    model: Model, wanted: Sequence[tuple[str, bool]], binary: bool
) -> list[tuple[int, bool]]:
    """Return the indices of the requested outputs; all if none is named (AOTC-E761)."""
    if not wanted:
        return [(place, binary) for place in range(len(model.outputs))]
    found: list[tuple[int, bool]] = []
    for name, is_binary in wanted:
        place = model.output_of.get(name)
        if place is None:
            raise _unknown("request outputs", name, model.output_of, "unknown-output")
        if place in (known for known, _ in found):
            raise refusal("AOTC-E761", f"output {name}", "", cause="tensor-named-twice")
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
            raise refusal("AOTC-E767", where, f"parameter {name}", hint=f"leave {name} out")


def outcome(model: Model, prepared: Prepared, answer: Answer, **more: Any) -> Outcome:
    """Return the result of a call; `more` are parameters beside the profile."""
    parameters = {"profile": answer.executable, "path": answer.path.value, **more}
    return Outcome(model, prepared, answer.result, parameters)
