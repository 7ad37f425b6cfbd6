"""Tracing entry points at their shape profiles, and what is learned on the way."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from aotc import private
from aotc.capture import axes, explain, keys, refuse, tree
from aotc.capture.arguments import CallPlan, FlatCall, flat_call, plan_call
from aotc.capture.weights import CLOSURE, Weights
from aotc.config.build_manifest import BuildManifest, EntryPointSpec
from aotc.errors import CaptureError, raise_if
from aotc_runtime.digest import sha256
from aotc_runtime.schema.manifest import (
    Argument,
    DType,
    InputArgument,
    KeyImpl,
    LiftedConstant,
    Parameter,
    TensorSpec,
    WeightArgument,
)
from aotc_runtime.schema.tree import Tree


class Shapes(NamedTuple):
    """What a module takes, without weights, and gives: shapes in leaf order."""

    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TracedProfile:
    """One entry point traced and lowered at one profile; `lowered` still lives in jax.

    outputs: abstract, as the function returns them.  arguments: the lowered module's parameters in
    order.  lifted: closed-over arrays by tensor name.
    """

    sizes: dict[str, int]
    call: FlatCall
    outputs: Any
    weak_types: tuple[bool, ...]
    lowered: Any
    arguments: tuple[Argument, ...]
    lifted: dict[str, np.ndarray[Any, Any]]

    def shapes(self) -> Shapes:
        return _shapes(self.call, self.outputs)


@dataclass(frozen=True, slots=True)
class TracedEntryPoint:
    """An entry point traced at all its profiles, with the descriptions they share."""

    plan: CallPlan
    spec: EntryPointSpec
    parameters: tuple[Parameter, ...]
    inputs: tuple[TensorSpec, ...]
    result: Tree
    outputs: tuple[TensorSpec, ...]
    dimensions: tuple[str, ...]
    lifted: tuple[LiftedConstant, ...]
    profiles: tuple[TracedProfile, ...]


def _where(name: str, sizes: Mapping[str, int]) -> str:
    assignment = ",".join(f"{key}={value}" for key, value in sizes.items())
    return f"{name}[{assignment}]" if assignment else name


def _trace(call: FlatCall, where: str, root: Path) -> tuple[Any, list[KeyImpl | None]]:
    """A `jax.stages.Traced` of the flat call over data, and which of its outputs are random keys.

    Raises CaptureError (E825, E826, E828, E829).
    """
    impls: list[KeyImpl | None] = []

    def checked(*leaves: Any) -> Any:
        result = call(*leaves)
        raise_if(refuse.check_outputs(result, where))
        impls[:] = [keys.impl_of(leaf) for leaf in jax.tree.leaves(result)]
        return jax.tree.map(keys.data_of, result)

    donated = tuple(index for index, leaf in enumerate(call.leaves) if leaf.donated)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=explain.NARROWED)
            traced = jax.jit(checked, donate_argnums=donated).trace(
                *(leaf.data for leaf in call.leaves)
            )
            return traced, impls
    except CaptureError:
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(explain.finding(error, call, where, root)) from error


def trace_profile(call: FlatCall, sizes: dict[str, int], root: Path) -> TracedProfile:
    """Trace, refuse what cannot be shipped, lower. Raises CaptureError (E822 to E837)."""
    where = _where(call.plan.name, sizes)
    traced, impls = _trace(call, where, root)
    leaves = tree.leaf_paths(traced.out_info)
    donated = [
        (tree.join(leaf.owner, leaf.path), leaf.aval) for leaf in call.leaves if leaf.donated
    ]
    raise_if(
        [
            *refuse.findings(traced.jaxpr, where, root),
            *refuse.check_inputs(traced.jaxpr, len(call.leaves), where),
            *refuse.check_donation(donated, (leaf for _, leaf in leaves), where),
            *(
                finding
                for path, leaf in leaves
                for finding in refuse.check_dtype(leaf.dtype, path or "result", f"{where} output")
            ),
        ]
    )
    lowered = traced.lower(lowering_platforms=("cpu",))
    parts = private.lowered_parts(lowered)
    lifted: dict[str, np.ndarray[Any, Any]] = {}
    names: list[str] = []
    for value in parts.constants:
        name = sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes())
        names.append(name.removeprefix("sha256:")[:16])
        lifted[names[-1]] = value
    return TracedProfile(
        sizes=sizes,
        call=call,
        outputs=keys.key_avals(traced.out_info, impls),
        weak_types=tuple(aval.weak_type for aval in traced.jaxpr.out_avals),
        lowered=lowered,
        arguments=tuple(_argument(index, names, call) for index in parts.kept),
        lifted=lifted,
    )


def _argument(index: int, constants: list[str], call: FlatCall) -> Argument:
    if index < len(constants):
        return WeightArgument(set=CLOSURE, tensor=constants[index])
    position = index - len(constants)
    leaf = call.leaves[position]
    if leaf.is_weight:
        return WeightArgument(set=leaf.owner, tensor=leaf.path)
    weights = sum(other.is_weight for other in call.leaves)
    return InputArgument(leaf=position - weights, aliased=leaf.donated)


def trace_entry_point(
    name: str,
    manifest: BuildManifest,
    weights: Mapping[str, Weights],
    all_sizes: Sequence[Mapping[str, int]],
) -> TracedEntryPoint:
    """Trace one entry point at these profiles. Raises CaptureError."""
    spec = manifest.entry_points[name]
    plan = plan_call(name, manifest)
    dimensions = tuple(all_sizes[0])

    def call_at(sizes: Mapping[str, int]) -> FlatCall:
        return flat_call(plan, weights, manifest, sizes)

    raise_if(
        finding
        for leaf in call_at(all_sizes[0]).leaves
        for finding in refuse.check_dtype(
            leaf.data.dtype, tree.join(leaf.owner, leaf.path), manifest.where("entry_points", name)
        )
    )
    profiles = tuple(
        trace_profile(call_at(sizes), dict(sizes), manifest.root) for sizes in all_sizes
    )
    first = profiles[0]
    raise_if(refuse.check_profiles([(_where(name, p.sizes), p.outputs) for p in profiles]))
    tree.check_paths(first.outputs, f"{name} result")
    for parameter in plan.inputs:
        where = manifest.where("entry_points", name, "inputs", parameter)
        tree.check_paths(first.call.trees[parameter], where)
    box, at_points = _sizes_at_points(profiles, manifest, call_at, dimensions)
    input_leaves = [leaf for leaf in first.call.leaves if not leaf.is_weight]
    inputs = tuple(
        TensorSpec(
            path=tree.join(leaf.owner, leaf.path),
            dtype=DType(str(leaf.data.dtype)),
            shape=_axes(dimensions, box, {p: s.inputs[index] for p, s in at_points.items()}),
            weak_type=False,
            key_impl=keys.impl_of(leaf.aval),
        )
        for index, leaf in enumerate(input_leaves)
    )
    outputs = tuple(
        TensorSpec(
            path=path,
            dtype=DType(str(keys.data_aval(leaf).dtype)),
            shape=_axes(dimensions, box, {p: s.outputs[index] for p, s in at_points.items()}),
            weak_type=first.weak_types[index],
            key_impl=keys.impl_of(leaf),
        )
        for index, (path, leaf) in enumerate(tree.leaf_paths(first.outputs))
    )
    counter = itertools.count()
    parameters = tuple(
        Parameter(
            name=parameter,
            kind=plan.kinds[parameter],
            tree=tree.describe(
                first.call.trees[parameter],
                counter,
                manifest.where("entry_points", name, "inputs", parameter),
            ),
            donated=parameter in spec.donate,
        )
        for parameter in plan.inputs
    )
    lifted = {key: value for profile in profiles for key, value in profile.lifted.items()}
    raise_if(
        finding
        for value in lifted.values()
        for finding in refuse.check_dtype(value.dtype, "", f"{name}, an array it closes over")
    )
    return TracedEntryPoint(
        plan=plan,
        spec=spec,
        parameters=parameters,
        inputs=inputs,
        result=tree.describe(first.outputs, itertools.count(), f"{name} result"),
        outputs=outputs,
        dimensions=dimensions,
        lifted=tuple(
            LiftedConstant(tensor=key, dtype=DType(str(value.dtype)), shape=value.shape)
            for key, value in sorted(lifted.items())
        ),
        profiles=profiles,
    )


def _sizes_at_points(
    profiles: tuple[TracedProfile, ...],
    manifest: BuildManifest,
    call_at: Any,
    dimensions: tuple[str, ...],
) -> tuple[dict[str, tuple[int, int]], dict[tuple[int, ...], Shapes]]:
    """Input and output shapes at every profile and at the corners of a box inside the ranges.

    A corner where the function cannot be evaluated, or gives another structure, is left out; axes
    that cannot be determined without it become "?".
    """
    at_points: dict[tuple[int, ...], Shapes] = {}
    for profile in profiles:
        point = tuple(profile.sizes[name] for name in dimensions)
        at_points[point] = profile.shapes()
    box: dict[str, tuple[int, int]] = {}
    for name in dimensions:
        low, *_, high = sorted({p.sizes[name] for p in profiles}) * 2
        minimum, maximum = (manifest.dimensions[name].minimum, manifest.dimensions[name].maximum)
        if low == high:
            low, high = (low, low + 1) if low < maximum else (max(low - 1, minimum), low)
        box[name] = (low, high)
    for corner in axes.corners(box):
        if corner in at_points:
            continue
        try:
            call = call_at(dict(zip(dimensions, corner, strict=True)))
            outputs = jax.eval_shape(call, *(leaf.data for leaf in call.leaves))
        except Exception:  # noqa: BLE001 - sizes between profiles need not work in the user's code
            continue
        if refuse.signature(outputs) == refuse.signature(profiles[0].outputs):
            at_points[corner] = _shapes(call, outputs)
    return box, at_points


def _shapes(call: FlatCall, outputs: Any) -> Shapes:
    return Shapes(
        tuple(tuple(leaf.data.shape) for leaf in call.leaves if not leaf.is_weight),
        tuple(tuple(keys.data_aval(leaf).shape) for leaf in jax.tree.leaves(outputs)),
    )


def _axes(
    dimensions: tuple[str, ...],
    box: Mapping[str, tuple[int, int]],
    shapes: Mapping[tuple[int, ...], tuple[int, ...]],
) -> tuple[int | str, ...]:
    rank = len(next(iter(shapes.values())))
    return tuple(
        axes.expression(dimensions, box, {point: shape[axis] for point, shape in shapes.items()})
        for axis in range(rank)
    )
