"""Binding a call's arguments to parameters, by Python's own rules."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from aotc_runtime.errors import Finding, ShapeError
from aotc_runtime.schema.labels import supplied_parameters
from aotc_runtime.schema.manifest import EntryPoint, Parameter, ParameterKind
from aotc_runtime.schema.tree import leaves as leaf_indices
from aotc_runtime.serving import trees

_KINDS = {
    ParameterKind.POSITIONAL_ONLY: inspect.Parameter.POSITIONAL_ONLY,
    ParameterKind.POSITIONAL_OR_KEYWORD: inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ParameterKind.KEYWORD_ONLY: inspect.Parameter.KEYWORD_ONLY,
}


def passed_parameters(spec: EntryPoint) -> tuple[Parameter, ...]:
    """The parameters that a caller passes: without masks and lengths, which the loader passes."""
    supplied = supplied_parameters(spec)
    return tuple(parameter for parameter in spec.parameters if parameter.name not in supplied)


def passed_leaves(spec: EntryPoint) -> list[int]:
    """The input leaves that a caller passes."""
    return [leaf for parameter in passed_parameters(spec) for leaf in leaf_indices(parameter.tree)]


def signature_of(parameters: Sequence[Parameter]) -> inspect.Signature:
    """The signature callers see: bound, static and supplied parameters are gone."""
    return inspect.Signature([inspect.Parameter(p.name, _KINDS[p.kind]) for p in parameters])


def bind(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    spec: EntryPoint,
) -> list[Any]:
    """The arguments in the order of the parameters. Raises ShapeError (AOTC-E601)."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ShapeError(
            Finding(
                code="AOTC-E601",
                where=name,
                expected=f"{name}{signature}",
                found=_found(error, signature, kwargs),
                hint=_hint(signature, len(args), kwargs, spec),
            )
        ) from error
    return [bound.arguments[parameter] for parameter in signature.parameters]


def _found(error: TypeError, signature: inspect.Signature, kwargs: dict[str, Any]) -> str:
    """What Python says, and the names it does not get to for want of a required argument."""
    unknown = [name for name in kwargs if name not in signature.parameters]
    if "unexpected" in str(error) or not unknown:
        return str(error)
    return f"{error}; no parameter is called {', '.join(map(repr, unknown))}"


def _hint(
    signature: inspect.Signature, positional: int, kwargs: dict[str, Any], spec: EntryPoint
) -> str:
    from aotc_runtime.words import did_you_mean

    unknown = [name for name in kwargs if name not in signature.parameters]
    supplied = [name for name in unknown if name in supplied_parameters(spec)]
    if supplied:
        return f"leave {' and '.join(supplied)} out: the loader passes what marks the real sizes"
    plain = "pass the parameters of the signature, by position or by name"
    left = [name for name in [*signature.parameters][positional:] if name not in kwargs]
    if len(unknown) == len(left) == 1:
        return f"did you mean {left[0]}?"
    return did_you_mean(unknown[0], left, plain) if unknown else plain


def positional_count(parameters: Sequence[Parameter]) -> int:
    """How many parameters can be passed by position."""
    return sum(p.kind is not ParameterKind.KEYWORD_ONLY for p in parameters)


def arguments_of(
    parameters: Sequence[Parameter], leaves: list[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, by position and by name, whose leaves these are."""
    values = {parameter.name: trees.builder(parameter.tree)(leaves) for parameter in parameters}
    positional = [
        values.pop(parameter.name)
        for parameter in parameters
        if parameter.kind is not ParameterKind.KEYWORD_ONLY
    ]
    return positional, values
