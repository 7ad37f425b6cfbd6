"""What a call does whose size in a dimension matches no profile, as a manifest writes it.

[entry_points.predict.out_of_profile]
batch = "split"
seq = { policy = "pad", fill = { tokens = 0 }, mask = "mask", length = "length" }
width = { policy = "compile", meanwhile = "pad", most = 8, seconds = 60 }

A table stands for `meanwhile` as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import ml_dtypes
import numpy as np
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict

from aotc.config.fields import Identifier, Size
from aotc.config.inputs import InputLeaf, InputLike, InputTree, leaf_paths
from aotc.config.problem import Problem, show, spell, unknown_reference
from aotc.config.profiles import Inputs, used_dimensions
from aotc.config.tables import table, tables
from aotc.config.validation import validate
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.manifest import CompileHere, DimensionPolicy, DType, KeyImpl, Pad, Split
from aotc_runtime.words import closest


def at_once(policy: DimensionPolicy | None) -> Pad | Split | None:
    """What a call can do without a compilation."""
    if isinstance(policy, CompileHere):
        return None if policy.meanwhile is UNSET else policy.meanwhile
    return policy


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FailModel(_Policy):
    """The default."""

    policy: Literal["fail"]


class PadModel(_Policy):
    """Fill up to the next profile."""

    policy: Literal["pad"]
    fill: dict[str, Any] = {}
    mask: Identifier | Literal[""] = ""
    length: Identifier | Literal[""] = ""


class SplitModel(_Policy):
    """Call several times."""

    policy: Literal["split"]


class CompileModel(_Policy):
    """Compile for the call's sizes."""

    policy: Literal["compile"]
    meanwhile: Any = "fail"
    most: Size = 8
    seconds: Size = 60


MODELS: Mapping[str, type[_Policy]] = {
    "fail": FailModel,
    "pad": PadModel,
    "split": SplitModel,
    "compile": CompileModel,
}


MEANWHILE = ("fail", "pad", "split")


def policy_of(raw: Any) -> DimensionPolicy | None:
    """The policy that a value without problems means, not proven yet; None for `fail`."""
    match _model_of(raw):
        case PadModel(fill=fill, mask=mask, length=length):
            numbers = {path: repr(value) for path, value in sorted(fill.items())}
            return Pad(fill=numbers, mask=mask, length=length, proof=())
        case SplitModel():
            return Split(proof=())
        case CompileModel(meanwhile=meanwhile, most=most, seconds=seconds):
            until = at_once(policy_of(meanwhile))
            return CompileHere(
                most=most, seconds=seconds, meanwhile=UNSET if until is None else until
            )
        case _:
            return None


def _model_of(raw: Any) -> _Policy:
    written = raw if isinstance(raw, dict) else {"policy": raw}
    return MODELS[written["policy"]].model_validate(written)


def check_policies(data: Mapping[str, Any], inputs: Inputs) -> Iterator[Problem]:
    """Policies of dimensions that the entry point has, whose inputs are what the policy needs."""
    for name, entry in tables(data.get("entry_points")):
        trees = inputs.get(name, {})
        used = used_dimensions(trees)
        lengths: dict[str, str] = {}
        for dimension, raw in table(entry.get("out_of_profile")).items():
            path: KeyPath = ("entry_points", name, "out_of_profile", dimension)
            if used is not None and dimension not in used:
                hint = "name a dimension of the entry point's inputs"
                yield unknown_reference(path, "dimension", dimension, used, hint)
                continue
            problems = list(_check_form(raw, path, tuple(MODELS)))
            yield from problems
            if problems or used is None:
                continue
            leaves = {
                at: leaf
                for parameter, tree in trees.items()
                for at, leaf in leaf_paths(_known(tree), parameter)
            }
            donated = entry.get("donate", [])
            yield from _check_against(raw, path, dimension, trees, leaves, lengths, donated)


def _known(tree: InputTree | None) -> InputTree:
    assert tree is not None, "used_dimensions said so"
    return tree


def _check_form(raw: Any, path: KeyPath, known: Sequence[str]) -> Iterator[Problem]:
    """The value by itself. known: the policies it may be."""
    choices = ", ".join(f'"{name}"' for name in known)
    policy = raw.get("policy") if isinstance(raw, dict) else raw
    if isinstance(raw, dict) and "policy" not in raw:
        hint = 'write { policy = "pad", … }'
        yield Problem("AOTC-E804", (*path, "policy"), "the key policy", "no such key", hint)
    elif not isinstance(policy, str) or policy not in known:
        at = (*path, "policy") if isinstance(raw, dict) else path
        expected = f"one of {choices}" + ("" if isinstance(raw, dict) else ", or a table with one")
        close = closest(policy, known) if isinstance(policy, str) else None
        hint = f"did you mean {close}?" if close else "write the policy's name in quotes"
        yield Problem("AOTC-E805", at, expected, show(policy), hint)
    elif isinstance(raw, dict):
        for problem in validate(raw, MODELS[policy])[1]:
            names = None if problem.names is None else (*path, *problem.names)
            # A union of types says the same of each member.
            steps = [s for s in problem.path if not str(s).startswith(("literal[", "constrained"))]
            yield replace(problem, path=(*path, *steps), names=names)
        if "meanwhile" in raw and policy == "compile":
            yield from _check_form(raw["meanwhile"], (*path, "meanwhile"), MEANWHILE)


def _check_against(
    raw: Any,
    path: KeyPath,
    dimension: str,
    trees: Mapping[str, InputTree | None],
    leaves: Mapping[str, InputLeaf | InputLike],
    lengths: dict[str, str],
    donated: Any,
) -> Iterator[Problem]:
    """The value beside the inputs. lengths: parameters named so far, with their dimensions."""
    spec = _model_of(raw)
    if isinstance(spec, CompileModel):
        spec, path = _model_of(spec.meanwhile), (*path, "meanwhile")
    if isinstance(spec, PadModel):
        for leaf, value in sorted(spec.fill.items()):
            yield from _check_fill((*path, "fill", leaf), leaf, value, dimension, leaves)
        for key, parameter in (("mask", spec.mask), ("length", spec.length)):
            if parameter:
                yield from _check_supplied((*path, key), key, parameter, dimension, trees, donated)
        if spec.length in lengths:
            expected = "a parameter for each dimension's length"
            found = f"{spec.length} is the length of {lengths[spec.length]}"
            hint = "add another parameter to the function"
            yield Problem("AOTC-E807", (*path, "length"), expected, found, hint)
        elif spec.length:
            lengths[spec.length] = dimension
    for at, leaf_spec in leaves.items() if isinstance(spec, SplitModel) else ():
        shape = leaf_spec.shape if isinstance(leaf_spec, InputLeaf) else ()
        if shape.count(dimension) > 1:
            expected = f"inputs that carry {dimension} on at most one axis, to split them there"
            found = f"{at} with shape {spell(list(shape))}"
            yield Problem("AOTC-E807", path, expected, found, "choose another policy")


def _check_fill(
    path: KeyPath,
    leaf: str,
    value: Any,
    dimension: str,
    leaves: Mapping[str, InputLeaf | InputLike],
) -> Iterator[Problem]:
    below = [at for at, spec in leaves.items() if isinstance(spec, InputLike)]
    if any(leaf == at or leaf.startswith(at + "/") for at in below):
        # What a `like` holds is known once its function has been called.
        spec = None
    else:
        spec = leaves.get(leaf)
        carrying = [
            at for at, s in leaves.items() if isinstance(s, InputLeaf) and dimension in s.shape
        ]
        if leaf not in carrying:
            hint = "only arrays with the dimension in their shape are padded"
            yield unknown_reference(
                path, f"input with {dimension} in its shape", leaf, carrying, hint
            )
            return
    dtype = spec.dtype if isinstance(spec, InputLeaf) else None
    if why := _misfit(value, dtype):
        yield Problem("AOTC-E805", path, why, show(value), "correct the number")


def _misfit(value: Any, dtype: DType | KeyImpl | None) -> str | None:
    """What a fill should be, if it is not: a value that the dtype holds. None: not known yet."""
    if isinstance(dtype, KeyImpl):
        return "an array of numbers: keys are padded with keys whose data is 0"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if dtype is None:
        return None if is_number or isinstance(value, bool) else "a number, true or false"
    if dtype is DType.BOOL:
        return None if isinstance(value, bool) else "true or false"
    if not is_number or "int" not in dtype.value:
        return None if is_number else "a number"
    info = ml_dtypes.iinfo(np.dtype(getattr(ml_dtypes, dtype.value, dtype.value)))
    fits = isinstance(value, int) and info.min <= value <= info.max
    return None if fits else f"an integer from {info.min} to {info.max}"


def _check_supplied(
    path: KeyPath,
    key: str,
    parameter: str,
    dimension: str,
    trees: Mapping[str, InputTree | None],
    donated: Any,
) -> Iterator[Problem]:
    """A parameter that the loader passes: an input of its own, of the right dtype and shape."""
    if parameter not in trees:
        example = f'["{dimension}"], dtype = "bool"' if key == "mask" else '[], dtype = "int32"'
        hint = f"add inputs.{parameter} = {{ shape = {example} }}"
        yield unknown_reference(path, "input", parameter, trees, hint)
        return
    tree = trees[parameter]
    leaf = tree if isinstance(tree, InputLeaf) else InputLeaf((), DType.FLOAT32)
    if key == "mask":
        good = leaf.dtype is DType.BOOL and dimension in leaf.shape
        expected = f"a bool array with {dimension} in its shape"
    else:
        good = leaf.dtype is DType.INT32 and not leaf.shape
        expected = "an int32 scalar, shape = []"
    if not good or not isinstance(tree, InputLeaf):
        found = f"{parameter}, " + (
            f"{leaf.dtype.value}{spell(list(leaf.shape))}"
            if isinstance(tree, InputLeaf)
            else "a tree of arrays"
        )
        yield Problem("AOTC-E805", path, expected, found, "correct the input, or name another")
    elif isinstance(donated, list) and parameter in donated:
        expected, found = "an input that the loader makes for each call", f"{parameter} is donated"
        yield Problem("AOTC-E807", path, expected, found, "remove it from `donate`")
