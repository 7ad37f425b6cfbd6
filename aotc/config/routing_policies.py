"""Policies for calls whose size in a dimension matches no profile, as a manifest writes them.

    [entry_points.predict.out_of_profile]
    batch = "split"
    seq = { policy = "pad", fill = { tokens = 0 }, mask = "mask", length = "length" }
    width = { policy = "compile", meanwhile = "pad", most = 8, seconds = 60 }

The value of `meanwhile` may be a table as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import ml_dtypes
import numpy as np
from msgspec import UNSET
from pydantic import PlainValidator, TypeAdapter

from aotc.config import field_types
from aotc.config.input_specs import InputLeaf, InputLike, InputTree, all_leaves
from aotc.config.manifest_problem import Problem, show, spell, unknown_reference
from aotc.config.toml_validation import Section
from aotc_runtime.base.suggestions import did_you_mean
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import (
    CompileHere,
    DimensionPolicy,
    DType,
    KeyImpl,
    Pad,
    Split,
)

type Fill = bool | int | float


def passing_hint(parameter: str, leaf: InputLeaf) -> str | None:
    """Return a hint how the loader passes an input that may be a mask or a length; else None."""
    axes = [axis for axis in leaf.shape if isinstance(axis, str)]
    if leaf.dtype is DType.BOOL and axes:
        key, axis = "mask", axes[-1]
    elif leaf.dtype is DType.INT32 and not leaf.shape:
        key, axis = "length", "DIMENSION"
    else:
        return None
    policy = f'{{ policy = "pad", {key} = "{parameter}" }}'
    return f"if the loader is to pass {parameter}, state `out_of_profile.{axis} = {policy}`"


def _fill(raw: object) -> Fill:
    if not isinstance(raw, bool | int | float):
        raise field_types.refusal("a number, true or false", "correct the fill")
    return raw


_Parameter = Annotated[
    str,
    field_types.accepting(
        lambda v: not v or field_types.is_identifier(v),
        field_types.IDENTIFIER_EXPECTED,
        "choose another name",
    ),
]


@dataclass(frozen=True, slots=True)
class _PlainTable(Section):
    policy: Literal["fail", "split"]

    def to_policy(self) -> Split | None:
        """Return the policy; None for `fail`, which bundles leave out."""
        return Split(proof=()) if self.policy == "split" else None


@dataclass(frozen=True, slots=True)
class _PadTable(Section):
    """The policy `pad`.

    `fill` maps inputs to numbers as TOML has them, 0 for others. `mask` and `length` are parameters
    that the loader passes; empty for none.
    """

    policy: Literal["pad"]
    fill: Annotated[Mapping[str, Annotated[Fill, PlainValidator(_fill)]], field_types.ByName] = (
        field(default_factory=dict)
    )
    mask: _Parameter = ""
    length: _Parameter = ""

    def to_policy(self) -> Pad:
        fill = {path: repr(value) for path, value in self.fill.items()}
        return Pad(fill=fill, mask=self.mask, length=self.length, proof=())


def _policy(raw: object, tables: Mapping[str, _Table]) -> DimensionPolicy | None:
    """Return the policy as bundles have it, not tested yet; None for `fail`."""
    written = raw if isinstance(raw, dict) else {"policy": raw}
    if "policy" not in written:
        hint = 'write { policy = "pad", … }'
        raise field_types.problems_error([Problem("AOTC-E804", ("policy",), hint)])
    policy = written["policy"]
    if isinstance(policy, str) and policy in tables:
        return tables[policy].validate_python(written).to_policy()
    problem = Problem(
        "AOTC-E805",
        ("policy",) if isinstance(raw, dict) else (),
        did_you_mean(policy, tables, "write the policy's name in quotes"),
        expected=(
            "one of: "
            + ", ".join(f'"{name}"' for name in tables)
            + ("" if isinstance(raw, dict) else ", or a table with one")
        ),
        found=show(policy),
    )
    raise field_types.problems_error([problem])


_AT_ONCE: Mapping[str, _Table] = {
    "fail": TypeAdapter(_PlainTable),
    "pad": TypeAdapter(_PadTable),
    "split": TypeAdapter(_PlainTable),
}


@dataclass(frozen=True, slots=True)
class _CompileTable(Section):
    """The policy `compile`.

    `meanwhile` applies until the executable is ready; None to fail. `most` limits the executables
    that are kept, `seconds` one compilation.
    """

    policy: Literal["compile"]
    meanwhile: Annotated[
        Pad | Split | None, PlainValidator(lambda raw: at_once(_policy(raw, _AT_ONCE)))
    ] = None
    most: field_types.Size = 8
    seconds: field_types.Size = 60

    def to_policy(self) -> CompileHere:
        until = UNSET if self.meanwhile is None else self.meanwhile
        return CompileHere(most=self.most, seconds=self.seconds, meanwhile=until)


type _Table = TypeAdapter[_PlainTable] | TypeAdapter[_PadTable] | TypeAdapter[_CompileTable]

_TABLES: Mapping[str, _Table] = {**_AT_ONCE, "compile": TypeAdapter(_CompileTable)}

PolicyValue = Annotated[DimensionPolicy | None, PlainValidator(lambda raw: _policy(raw, _TABLES))]
"""A policy's name or table; as bundles have it, not tested yet, None for `fail`."""


def at_once(policy: DimensionPolicy | None) -> Pad | Split | None:
    """Return what a call can do without a compilation."""
    now = policy.meanwhile if isinstance(policy, CompileHere) else policy
    return now if isinstance(now, Pad | Split) else None


def check_policies(
    policies: Mapping[str, DimensionPolicy | None],
    path: KeyPath,
    inputs: Mapping[str, InputTree],
    donated: Collection[str],
) -> Iterator[Problem]:
    """Require inputs that suit the policies."""
    leaves = all_leaves(inputs)
    lengths: dict[str, str] = {}
    pads = {name: plan for name, p in policies.items() if isinstance(plan := at_once(p), Pad)}
    for dimension, policy in policies.items():
        at: KeyPath = (*path, dimension)
        if isinstance(policy, CompileHere):
            at = (*at, "meanwhile")
        plan = at_once(policy)
        if isinstance(plan, Pad):
            for leaf, text in plan.fill.items():
                number = _number(text)
                yield from _check_fill((*at, "fill", leaf), leaf, number, dimension, leaves)
            for key, parameter in (("mask", plan.mask), ("length", plan.length)):
                if parameter:
                    place = (*at, key)
                    shape = [d for d in pads if d == dimension or pads[d].mask == parameter]
                    yield from _check_mask_or_length(place, parameter, shape, inputs, donated)
            if plan.length in lengths:
                found = f"{plan.length}, the length of {lengths[plan.length]}"
                hint = "add a parameter for this length to the function"
                yield Problem("AOTC-E807", (*at, "length"), hint, found=found)
            elif plan.length:
                lengths[plan.length] = dimension
        elif isinstance(plan, Split):
            for name, spec in leaves.items():
                if isinstance(spec, InputLeaf) and spec.shape.count(dimension) > 1:
                    found, cause = f"{name} {spell(spec.shape)}", "dimension-is-on-several-axes"
                    hint = "choose another policy"
                    yield Problem("AOTC-E807", at, hint, found=found, cause=cause)


def _check_fill(
    at: KeyPath, leaf: str, value: Fill, dimension: str, leaves: Mapping[str, InputLeaf | InputLike]
) -> Iterator[Problem]:
    likes = [name for name, spec in leaves.items() if isinstance(spec, InputLike)]
    if any(leaf == like or leaf.startswith(like + "/") for like in likes):
        # The structure of a `like` is known once its function has been called.
        spec = None
    else:
        spec = leaves.get(leaf)
        padded = [n for n, s in leaves.items() if isinstance(s, InputLeaf) and dimension in s.shape]
        if leaf not in padded:
            hint = "name an array that has the dimension in its shape: others are not padded"
            yield unknown_reference(at, "input array", leaf, padded, hint)
            return
    dtype = spec.stated if isinstance(spec, InputLeaf) else None
    if why := _misfit(value, dtype):
        yield Problem("AOTC-E805", at, "correct the fill", expected=why, found=show(value))


def _number(text: str) -> Fill:
    """Return the number that a fill's text was made from."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return float(text)


def _misfit(value: Fill, dtype: DType | KeyImpl | None) -> str | None:
    """Return a description of valid fills if `value` is invalid; None if it may be valid."""
    if isinstance(dtype, KeyImpl):
        return "an array of numbers: keys are padded with keys whose data is 0"
    if dtype is None:
        return None
    is_number = not isinstance(value, bool)
    if dtype is DType.BOOL:
        return "true or false" if is_number else None
    if not is_number or "int" not in dtype.value:
        return None if is_number else "a number"
    info = ml_dtypes.iinfo(np.dtype(getattr(ml_dtypes, dtype.value, dtype.value)))
    fits = isinstance(value, int) and info.min <= value <= info.max
    return None if fits else f"an integer from {info.min} to {info.max}"


def _check_mask_or_length(
    path: KeyPath,
    parameter: str,
    shape: Sequence[str],
    inputs: Mapping[str, InputTree],
    donated: Collection[str],
) -> Iterator[Problem]:
    """Require that a parameter of the loader is an input of the right dtype and shape.

    `shape` are the dimensions whose policies name it.
    """
    is_mask = path[-1] == "mask"
    if parameter not in inputs:
        example = f'{spell(shape)}, dtype = "bool"' if is_mask else '[], dtype = "int32"'
        hint = f"add inputs.{parameter} = {{ shape = {example} }}"
        yield unknown_reference(path, "input", parameter, inputs, hint)
        return
    tree, is_good, found = inputs[parameter], False, "a tree of arrays"
    if isinstance(tree, InputLeaf):
        is_good = tree.stated is DType.INT32 and not tree.shape
        if is_mask:
            is_good = tree.stated is DType.BOOL and {*shape} <= {*tree.shape}
        found = f"{tree.stated.value if tree.stated else 'of no stated dtype, '}{spell(tree.shape)}"
    if not is_good:
        expected = f"a bool array with {' and '.join(shape)} in its shape"
        expected = expected if is_mask else "an int32 scalar, shape = []"
        found, hint = f"{parameter}, {found}", "correct the input, or name another"
        yield Problem("AOTC-E805", path, hint, expected=expected, found=found)
    elif parameter in donated:
        yield Problem("AOTC-E807", path, f"remove {parameter} from `donate`", found="donate")
