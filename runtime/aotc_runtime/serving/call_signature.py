"""Binding a call's arguments to parameters, by Python's own rules."""

import inspect
from collections.abc import Sequence
from typing import Any

from aotc_runtime.base.errors import refusal
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.schema.bundle_manifest import EntryPoint, Parameter
from aotc_runtime.schema.fallback_policies import masks_and_lengths
from aotc_runtime.schema.pytrees import Leaf


def signature_of(parameters: Sequence[Parameter]) -> inspect.Signature:
    """Return the signature for callers, without bound parameters, masks and lengths."""
    return inspect.Signature(
        [inspect.Parameter(p.name, getattr(inspect.Parameter, p.kind.name)) for p in parameters]
    )


def bind(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    spec: EntryPoint,
) -> list[Any]:
    """Return the arguments in the order of the parameters. Raises ShapeError (AOTC-E601)."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        found, hint = _message(error, signature, kwargs), _hint(signature, args, kwargs, spec)
        raise refusal("AOTC-E601", name, found, expected=f"{name}{signature}", hint=hint) from error
    return [bound.arguments[parameter] for parameter in signature.parameters]


def _message(error: TypeError, signature: inspect.Signature, kwargs: dict[str, Any]) -> str:
    """Return Python's message, with unknown names that a missing argument hid from it."""
    unknown = [name for name in kwargs if name not in signature.parameters]
    if "unexpected" in str(error) or not unknown:
        return str(error)
    return f"{error}; unknown {', '.join(map(repr, unknown))}"


def _hint(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], spec: EntryPoint
) -> str:
    by_position = sum(p.kind is not p.KEYWORD_ONLY for p in signature.parameters.values())
    unknown = [name for name in kwargs if name not in signature.parameters]
    by_loader = sorted(masks_and_lengths(spec))
    masks = [name for name in unknown if name in by_loader]
    if masks := masks or by_loader * (len(args) > by_position):
        return f"leave out {' and '.join(masks)}, which the loader passes"
    is_nested = any(isinstance(each, dict | list | tuple) for each in (*args, *kwargs.values()))
    flat = {each.name for each in spec.parameters if isinstance(each.tree, Leaf)}
    if is_nested and flat.issuperset(signature.parameters):
        return f"pass an array for each parameter: {', '.join(signature.parameters)}"
    plain = "pass the parameters by position or by name"
    left = [name for name in [*signature.parameters][len(args) :] if name not in kwargs]
    if len(unknown) == len(left) == 1:
        return f"did you mean `{left[0]}`?"
    return did_you_mean(unknown[0], left, plain) if unknown else plain
