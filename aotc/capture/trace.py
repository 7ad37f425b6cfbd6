"""Tracing entry points at their shape profiles, and what is learned on the way."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aotc import private
from aotc.capture import coverage, explain, keys, policy_checks, refuse, tree
from aotc.capture.arguments import CallPlan, FlatCall, flat_call, plan_call
from aotc.capture.leaf_axes import Shapes, Traced, find, shapes_of
from aotc.capture.spreading import Spread, WeightShardings, on_one_device, spread_of
from aotc.capture.symbolic import Symbolic, analyze, export_module, symbols
from aotc.capture.weights import CLOSURE, Weights
from aotc.config.build_manifest import BuildManifest, CompileSpec, EntryPointSpec
from aotc.errors import BuildManifestError, CaptureError, raise_if
from aotc.evidence import ControlFlow, Coverage
from aotc.locations import Decision, EntryPointLines
from aotc_runtime.digest import sha256
from aotc_runtime.errors import Finding
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

_CUSTOM_CALL = re.compile(r"stablehlo\.custom_call @([\w.$]+)\(")


@dataclass(frozen=True, slots=True)
class TracedProfile:
    """One entry point traced and lowered at one profile; `lowered` still lives in jax.

    outputs: abstract, as the function returns them.  arguments: the lowered module's parameters in
    order.  lifted: closed-over arrays by tensor name.  traced: what `lowered` was lowered from.
    """

    sizes: dict[str, int]
    call: FlatCall
    outputs: Any
    weak_types: tuple[bool, ...]
    lowered: Any
    arguments: tuple[Argument, ...]
    lifted: dict[str, np.ndarray[Any, Any]]
    control_flow: ControlFlow
    traced: Any

    def shapes(self) -> Shapes:
        return shapes_of(self.call, self.outputs)


@dataclass(frozen=True, slots=True)
class ExportedEntryPoint:
    """The module of an entry point at all its sizes, which still lives in MLIR. arguments: what it
    takes, in order.
    """

    module: Any
    arguments: tuple[Argument, ...]


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
    symbolic: Symbolic
    exported: ExportedEntryPoint | None
    coverage: Coverage
    lines: EntryPointLines


def _where(name: str, sizes: Mapping[str, int]) -> str:
    assignment = ",".join(f"{key}={value}" for key, value in sizes.items())
    return f"{name}[{assignment}]" if assignment else name


def _trace(
    call: FlatCall, where: str, root: Path, spread: Spread | None, sizes: Mapping[str, int]
) -> tuple[Any, list[KeyImpl | None]]:
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
            data = [leaf.data for leaf in call.leaves]
            shardings: dict[str, Any] = {}
            if spread is not None:
                result = jax.eval_shape(checked, *data)
                shardings = spread.jit_arguments(call, keys.key_avals(result, impls), sizes)
            traced = jax.jit(checked, donate_argnums=donated, **shardings).trace(*data)
            return traced, impls
    except (BuildManifestError, CaptureError):
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(explain.finding(error, call, where, root)) from error


def trace_profile(
    call: FlatCall, sizes: dict[str, int], root: Path, spread: Spread | None = None
) -> TracedProfile:
    """Trace, refuse what cannot be shipped, lower. Raises CaptureError (E822 to E837)."""
    where = _where(call.plan.name, sizes)
    traced, impls = _trace(call, where, root, spread, sizes)
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
        names.append(_name_of(value))
        lifted[names[-1]] = value
    return TracedProfile(
        sizes=sizes,
        call=call,
        outputs=keys.key_avals(traced.out_info, impls),
        weak_types=tuple(aval.weak_type for aval in traced.jaxpr.out_avals),
        lowered=lowered,
        arguments=tuple(_argument(index, names, call) for index in parts.kept),
        lifted=lifted,
        control_flow=coverage.control_flow(traced.jaxpr.jaxpr),
        traced=traced,
    )


def _name_of(value: np.ndarray[Any, Any]) -> str:
    """Of a closed-over array, by what it holds."""
    digest = sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    return digest.removeprefix("sha256:")[:16]


def _argument(
    index: int, constants: list[str], call: FlatCall, *, donates: bool = True
) -> Argument:
    if index < len(constants):
        return WeightArgument(set=CLOSURE, tensor=constants[index])
    position = index - len(constants)
    leaf = call.leaves[position]
    if leaf.is_weight:
        return WeightArgument(set=leaf.owner, tensor=leaf.path)
    weights = sum(other.is_weight for other in call.leaves)
    return InputArgument(leaf=position - weights, aliased=leaf.donated and donates)


def trace_entry_point(
    name: str,
    manifest: BuildManifest,
    weights: Mapping[str, Weights],
    all_sizes: Sequence[Mapping[str, int]],
    weights_spread: WeightShardings = MappingProxyType({}),
) -> TracedEntryPoint:
    """Trace one entry point at these profiles. Raises CaptureError, and BuildManifestError for
    shardings that do not fit.
    """
    spec = manifest.entry_points[name]
    plan = plan_call(name, manifest)
    dimensions = tuple(all_sizes[0])

    def call_at(sizes: Mapping[str, Any]) -> FlatCall:
        return flat_call(plan, weights, manifest, sizes)

    raise_if(
        finding
        for leaf in call_at(all_sizes[0]).leaves
        for finding in refuse.check_dtype(
            leaf.data.dtype, tree.join(leaf.owner, leaf.path), manifest.where("entry_points", name)
        )
    )
    calls = [(call_at(sizes), dict(sizes)) for sizes in all_sizes]
    spread = spread_of(manifest, name, weights_spread, calls)
    with coverage.recording(manifest.root) as recorded:
        profiles = tuple(trace_profile(call, sizes, manifest.root, spread) for call, sizes in calls)
    covered, functions = recorded.coverage()
    first = profiles[0]
    raise_if(refuse.check_profiles([(_where(name, p.sizes), p.outputs) for p in profiles]))
    tree.check_paths(first.outputs, f"{name} result")
    for parameter in plan.inputs:
        where = manifest.where("entry_points", name, "inputs", parameter)
        tree.check_paths(first.call.trees[parameter], where)
    known = {dimension: manifest.dimensions[dimension] for dimension in dimensions}
    accepted = {dimension: spec.accepted for dimension, spec in known.items()}
    found = Symbolic(None)
    if dimensions:
        # Which axes carry which dimension does not depend on how many devices there are, and sizes
        # that are symbols cannot be shown to be multiples of anything but 1.
        with on_one_device(manifest.mesh):
            found = analyze(
                call_at, shapes_of, accepted, spec.relations, first.sizes, manifest.root
            )
    traced = [Traced(profile.sizes, profile.shapes(), profile.outputs) for profile in profiles]
    leaf_axes = find(found, traced, known, call_at)
    input_leaves = [leaf for leaf in first.call.leaves if not leaf.is_weight]
    inputs = tuple(
        TensorSpec(
            path=tree.join(leaf.owner, leaf.path),
            dtype=DType(str(leaf.data.dtype)),
            shape=leaf_axes.inputs[index],
            weak_type=False,
            key_impl=keys.impl_of(leaf.aval),
            sharding=()
            if spread is None
            else spread.of_input(tree.join(leaf.owner, leaf.path), leaf.aval),
        )
        for index, leaf in enumerate(input_leaves)
    )
    cuts = () if spread is None else spread.of_outputs(first.outputs, first.sizes)
    outputs = tuple(
        TensorSpec(
            path=path,
            dtype=DType(str(keys.data_aval(leaf).dtype)),
            shape=leaf_axes.outputs[index],
            weak_type=first.weak_types[index],
            key_impl=keys.impl_of(leaf),
            sharding=cuts[index] if cuts else (),
        )
        for index, (path, leaf) in enumerate(tree.leaf_paths(first.outputs))
    )
    raise_if(policy_checks.findings(manifest, name, inputs, outputs, found))
    compiled = [d for d, p in spec.out_of_profile.items() if isinstance(p, CompileSpec)]
    exported = None
    if compiled:
        where = manifest.where("entry_points", name, "out_of_profile", compiled[0])
        exported = _exported(call_at(symbols(accepted, spec.relations)), profiles, where)
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
        symbolic=found,
        exported=exported,
        coverage=covered,
        lines=EntryPointLines(functions, _decisions(found)),
    )


def _decisions(found: Symbolic) -> dict[str, Decision]:
    places = {name: each.place.rpartition(":") for name, each in found.specialized.items()}
    return {n: Decision(file, int(line)) for n, (file, _, line) in places.items() if line.isdigit()}


def _exported(call: FlatCall, profiles: Sequence[TracedProfile], where: str) -> ExportedEntryPoint:
    """All sizes at once. Raises CaptureError (AOTC-E839) for what jax cannot export."""
    targets = {t for p in profiles for t in _CUSTOM_CALL.findall(p.lowered.as_text())}
    known = {name for profile in profiles for name in profile.lifted}

    def lifted(value: Any) -> str | None:
        if not jnp.issubdtype(value.dtype, jax.dtypes.extended):
            name = _name_of(np.asarray(value))
            return name if name in known else None
        return None

    try:
        module, names = export_module(call, sorted(targets), lifted)
    except Exception as error:
        raise CaptureError(
            Finding(
                code="AOTC-E839",
                where=where,
                expected="a function that jax can lower at all its sizes at once",
                found=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
                hint="change the function, or leave the policy at fail",
            )
        ) from error
    count = len(names) + len(call.leaves)
    arguments = (_argument(index, names, call, donates=False) for index in range(count))
    return ExportedEntryPoint(module, tuple(arguments))
