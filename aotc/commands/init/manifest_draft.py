"""From what was asked and seen to a manifest: every parameter bound, an input, or fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from aotc.base.errors import finding, raise_if
from aotc.commands.init.draft_types import ArrayInput, DimensionDraft, Draft, leaves_of
from aotc.commands.init.drafted_parameters import ParameterReader
from aotc.commands.init.init_messages import Answer
from aotc.commands.init.init_request import Request, is_model_file
from aotc.config.field_types import is_identifier
from aotc.config.input_specs import WIDE_DTYPES
from aotc_runtime.base.errors import Finding
from aotc_runtime.base.suggestions import closest

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")

DEFAULT_RANGE = (1, 64)
DEFAULT_SIZES = (1, 8, 64)
LARGEST_RANGE = 4096
"""The largest size of a model file's range that is taken as it is; there is a profile for it."""


def draft(
    request: Request,
    answer: Answer,
    *,
    name: str,
    entry_point: str | None,
    targets: tuple[str, ...],
    module: str,
) -> Draft:
    """entry_point: the function's name by default.  module: the name of the wrapper's.

    Raises UsageError: AOTC-E081 a parameter of which nothing is known, E082 an example that a
    manifest cannot describe, E083 an option for what the function does not have.
    """
    function, notes = request.function, [_left_out(any_) for any_ in answer.takes_any]
    if wrapper := answer.wrapper:
        function = f"{module}:{wrapper.function}"
        notes = [_wrapped(request.function, module), *notes]
        returned = {name: f"{module}:{name}" for name in wrapper.returned}
        known = {name: source for name, source in returned.items() if name not in request.named}
        request = replace(request, weights={**known, **request.weights})
    reader = ParameterReader(request, wrapper.weights if wrapper else ())
    inputs, static = reader.parameters(answer.parameters, answer.needed)
    raise_if([*_unknown_parameters(request, answer), *reader.problems])
    leaves = [leaf for tree in inputs.values() for _, leaf in leaves_of(tree, "")]
    dimensions = _dimensions(request, leaves, reader.sizes, answer)
    return Draft(
        name=name,
        entry_point=entry_point or entry_point_of(function),
        function=function,
        targets=targets,
        enable_x64=answer.enable_x64 or any(leaf.dtype in WIDE_DTYPES for leaf in leaves),
        weights=request.weights,
        dimensions=dimensions,
        inputs=inputs,
        static=static,
        notes=(*reader.notes, *notes, *_cut_ranges(dimensions, answer)),
        is_file=is_model_file(function),
        donate=tuple(answer.donate),
    )


def _wrapped(function: str, module: str) -> str:
    return (
        f"{module}.py is new, with what the manifest calls: a function with named arguments around "
        f"{function}; change it as you like"
    )


def _left_out(takes_any: str) -> str:
    return (
        f"the function's {takes_any} gets nothing: a manifest passes what the signature names, so "
        "what is to be passed needs a name there, or a function around it that has one"
    )


def _unknown_parameters(request: Request, answer: Answer) -> Iterator[Finding]:
    known = [parameter.name for parameter in answer.parameters]
    for name, option in sorted(request.named.items()):
        if name not in known:
            close = closest(name, known)
            yield finding(
                "AOTC-E083",
                f"{option} {name}",
                f"{name} would land in {' or '.join(answer.takes_any)}"
                if answer.takes_any
                else name,
                expected=f"a parameter of {request.function}: {', '.join(known) or 'it has none'}",
                hint=_renamed(name, close, answer),
            )


def _renamed(name: str, close: str | None, answer: Answer) -> str:
    if close:
        return f"did you mean {close}?"
    if answer.takes_any:
        return f"name it in the signature, or wrap the function: def f({name}, ...)"
    return "correct the name"


def _dimensions(
    request: Request,
    leaves: list[ArrayInput],
    sizes: Mapping[str, tuple[int, str]],
    answer: Answer,
) -> dict[str, DimensionDraft]:
    names = {axis for leaf in leaves for axis in leaf.shape if isinstance(axis, str)}
    found: dict[str, DimensionDraft] = {}
    for name in sorted(names):
        low, high = request.dimensions.get(name, (0, math.inf))
        if own := tuple(size for size in answer.sizes.get(name, ()) if low <= size <= high):
            found[name] = DimensionDraft(own[0], own[-1], own)
            continue
        if name in request.dimensions:
            low, high = request.dimensions[name]
            found[name] = DimensionDraft(low, high, (low,) if low == high else "powers_of_two")
            continue
        size = sizes[name][0] if name in sizes else 1
        least, most = answer.ranges.get(name, (None, None))
        low, high = max(DEFAULT_RANGE[0], least or 0), DEFAULT_RANGE[1]
        if most is not None and DEFAULT_RANGE[1] < most <= LARGEST_RANGE:
            high = most
        high = max(high, 2 ** math.ceil(math.log2(size))) if size > 0 else high
        high = max(low, high if most is None else min(high, most))
        last = () if most is None or high > LARGEST_RANGE else (high,)
        profiles = sorted({*(s for s in DEFAULT_SIZES if low <= s <= high), max(size, low), *last})
        found[name] = DimensionDraft(low, high, tuple(profiles))
    return found


def _cut_ranges(dimensions: Mapping[str, DimensionDraft], answer: Answer) -> Iterator[str]:
    """A sentence for each dimension whose range is shorter than that of a model file."""
    for name, draft in dimensions.items():
        _, most = answer.ranges.get(name, (None, None))
        if most is not None and draft.high < most < 2**31:
            yield (
                f"{name} is up to {draft.high} here, and up to {most} in the file: state the range "
                "that is called"
            )


def name_of(function: str) -> str:
    """A bundle's name from a reference: the first package that the function is in, or the file."""
    if is_model_file(function):
        return _NO_NAME.sub("-", PurePosixPath(function).stem).strip("-") or "model"
    return PurePosixPath(function.partition(":")[0].replace(".", "/")).parts[0]


def entry_point_of(function: str) -> str:
    """An entry point's name from a reference: the function's own, or the file's."""
    if is_model_file(function):
        stem = PurePosixPath(function).stem
        return stem if is_identifier(stem) else "run"
    last = function.rpartition(".")[2].rpartition(":")[2]
    return last if is_identifier(last) else "run"
