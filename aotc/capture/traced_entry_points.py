"""Tracing an entry point at all its profiles, and what is the same in all of them.

Besides the profiles: its parameters and tensors as the bundle manifest describes them, which axes
carry which dimension, how much of the program was traced, and a module for sizes between profiles.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aotc.base.errors import CaptureError, finding, raise_if, refusal
from aotc.base.source_locations import Decision, EntryPointLines
from aotc.base.stages import CapturedEntryPoint, CapturedProfile, CapturedSymbolic, Module
from aotc.capture import (
    jax_private,
    jax_trees,
    line_coverage,
    random_keys,
    trace_errors,
    trace_refusals,
    traced_shardings,
)
from aotc.capture.call_arguments import CallPlan, FlatCall, flat_call, plan_call
from aotc.capture.leaf_axes import Axes, Traced, find, shapes_of
from aotc.capture.model_entry_points import Models
from aotc.capture.model_files.custom_call_checks import require_known_calls
from aotc.capture.portable_stablehlo import portable
from aotc.capture.profile_trace import (
    HOST,
    Platforms,
    TracedProfile,
    argument_at,
    closure_name,
    trace_profile,
)
from aotc.capture.symbolic_trace import Symbolic, analyze, export_module, symbols
from aotc.capture.weight_sets import Weights
from aotc.compile.xla import constant_nan
from aotc.config.build_manifest import BuildManifest, EntryPointSpec, at_once
from aotc_runtime.base import first_line
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.manifest_labels import label
from aotc_runtime.schema.shard_layout import mesh_of
from aotc_runtime.schema.size_expressions import parse_expression
from aotc_runtime.schema.tensor_text import tensor_text

_CUSTOM_CALL = re.compile(r"stablehlo\.custom_call @([\w.$]+)\(")


class TracedEntryPoint(NamedTuple):
    """An entry point traced at all its profiles, and its calls.

    `lifted` has the arrays that the function closes over, by tensor name.
    """

    captured: CapturedEntryPoint
    plan: CallPlan
    lifted: dict[str, np.ndarray[Any, Any]]


def trace_entry_point(
    name: str,
    manifest: BuildManifest,
    models: Models,
    weights: Mapping[str, Weights],
    all_sizes: Sequence[Mapping[str, int]],
    weight_shardings: traced_shardings.WeightShardings,
    platforms: Platforms,
) -> TracedEntryPoint:
    """Trace one entry point at these profiles.

    `models` has those of the manifest's entry points that are model files. `all_sizes` are the
    profiles' sizes; `weight_shardings` are over the manifest's mesh, if any; `platforms` are those
    to lower for. Raises CaptureError, and BuildManifestError for invalid shardings.
    """
    spec, is_file = manifest.entry_points[name], name in models.opened
    plan = plan_call(name, manifest, models.resolve)
    dimensions = tuple(all_sizes[0])

    def call_at(sizes: Mapping[str, Any]) -> FlatCall:
        return flat_call(plan, weights, manifest, sizes)

    where = manifest.where("entry_points", name)
    raise_if(
        found
        for leaf in call_at(all_sizes[0]).leaves
        for found in trace_refusals.check_dtype(
            leaf.data.dtype, jax_trees.join(leaf.owner, leaf.path), where
        )
    )
    calls = [(call_at(sizes), dict(sizes)) for sizes in all_sizes]
    on_mesh = traced_shardings.shardings_of(manifest, name, weight_shardings, calls)
    with line_coverage.recording(manifest.root) as recorded:
        profiles = tuple(
            trace_profile(call, sizes, manifest.root, on_mesh, platforms) for call, sizes in calls
        )
    covered, functions = recorded.coverage()
    first = profiles[0]
    # Before the profiles are compared, so that what no bundle can describe is named by where it
    # stands in the program.
    result = jax_trees.describe(first.outputs, itertools.count(), f"{name} result")
    parameters = _parameters(plan, spec, manifest, first)
    _check_trees(plan, manifest, profiles)
    known = {dimension: manifest.dimensions[dimension] for dimension in dimensions}
    accepted = {dimension: each.accepted for dimension, each in known.items()}
    symbolic, ranged = Symbolic(None), spec.ranged(manifest.dimensions)
    if accepted:
        # Which axes carry which dimension does not depend on how many devices there are, and
        # symbolic sizes cannot be shown to be multiples of anything but 1.
        with traced_shardings.on_one_device(manifest.mesh):
            at = {
                # The executable of a range is for one size of each other dimension.
                d: [p.sizes for p in profiles if p.sizes[d] == each.largest]
                if d in ranged
                else [first.sizes]
                for d, each in accepted.items()
            }
            symbolic = analyze(call_at, shapes_of, accepted, at, spec, manifest.root)
    traced = [Traced(profile.sizes, profile.shapes(), profile.outputs) for profile in profiles]
    if is_file:  # its operations decide nothing
        symbolic = replace(symbolic, unseen=symbolic.unseen.intersection(ranged))
    input_axes, output_axes = find(symbolic, traced, known, call_at)
    given = [
        (jax_trees.join(e.owner, e.path), e.aval) for e in first.call.leaves if not e.is_weight
    ]
    weak = [leaf.weak_type for _, leaf in given]
    sharded = [on_mesh.of_input(*each) for each in given] if on_mesh else []
    inputs = _tensor_specs(given, input_axes, weak, sharded)
    made = jax_trees.leaf_paths(first.outputs)
    sharded = on_mesh.of_outputs(first.outputs, first.sizes) if on_mesh else []
    outputs = _tensor_specs(made, output_axes, first.weak_types, sharded)
    raise_if(_policy_findings(manifest, name, inputs, outputs, symbolic))
    compiled = [
        d for d, p in spec.out_of_profile.items() if isinstance(p, bundle_manifest.CompileHere)
    ]
    exported = None
    if compiled:
        where = manifest.where("entry_points", name, "out_of_profile", compiled[0])
        exported = _exported(
            call_at(symbols(accepted, spec.relations)), profiles, where, is_file=is_file
        )
    lifted = {key: value for profile in profiles for key, value in profile.lifted.items()}
    captured = CapturedEntryPoint(
        name=name,
        function=spec.function,
        parameters=parameters,
        inputs=inputs,
        result=result,
        outputs=outputs,
        dimensions=dimensions,
        bound=dict(plan.bound),
        static={**plan.defaulted, **{key: repr(value) for key, value in plan.fixed.items()}},
        lifted=_lifted_constants(name, lifted),
        mesh=mesh_of(manifest.mesh) if manifest.mesh else None,
        specialized={dimension: each.what for dimension, each in symbolic.specialized.items()},
        counted={
            dimension: place
            for dimension, place in symbolic.counted.items()
            if at_once(spec.out_of_profile.get(dimension))
        },
        tried=tuple(d for d, found in symbolic.obstacles.items() if found and not found[0]),
        coverage=covered,
        lines=EntryPointLines(
            functions, _decisions(symbolic), models.lines(name), tuple(recorded.caught)
        ),
        symbolic=exported,
        profiles=tuple(
            _capture_profile(profile, manifest.root, is_file=is_file, located=platforms.located)
            for profile in profiles
        ),
        largest={dimension: accepted[dimension].largest for dimension in ranged},
        calls={call: line for p in reversed(profiles) for call, line in p.calls.items()},
        recorded=spec.fixtures.results is not None,
        model=models.origin(name, first.traced.jaxpr.jaxpr),
    )
    return TracedEntryPoint(captured, plan, lifted)


def _check_trees(
    plan: CallPlan, manifest: BuildManifest, profiles: Sequence[TracedProfile]
) -> None:
    """Raises CaptureError: AOTC-E827 results that differ between profiles, E833 equal paths."""
    first = profiles[0]
    labels = [label(plan.name, profile.sizes) for profile in profiles]
    outputs = [profile.outputs for profile in profiles]
    raise_if(trace_refusals.check_profiles([*zip(labels, outputs, strict=True)], "results"))
    jax_trees.check_paths(first.outputs, f"{plan.name} result")
    for parameter in plan.inputs:
        passed = [profile.call.trees[parameter] for profile in profiles]
        named = [f"{where} {parameter}" for where in labels]
        raise_if(trace_refusals.check_profiles([*zip(named, passed, strict=True)], "a structure"))
        where = manifest.where("entry_points", plan.name, "inputs", parameter)
        jax_trees.check_paths(first.call.trees[parameter], where)


def _tensor_specs(
    named: Sequence[tuple[str, Any]],
    axes: Sequence[Axes],
    weak_types: Iterable[bool],
    shardings: Sequence[bundle_manifest.Sharding],
) -> tuple[bundle_manifest.TensorSpec, ...]:
    """Return inputs or outputs, leaves by path, as the bundle manifest describes them.

    Without a mesh, `shardings` is empty.
    """
    every = zip(named, axes, weak_types, shardings or [()] * len(named), strict=True)
    return tuple(
        bundle_manifest.TensorSpec(
            path=path,
            dtype=bundle_manifest.DType(str(random_keys.data_aval(leaf).dtype)),
            shape=shape,
            weak_type=weak_type,
            key_impl=random_keys.impl_of(leaf),
            sharding=sharding,
        )
        for (path, leaf), shape, weak_type, sharding in every
    )


def _parameters(
    plan: CallPlan, spec: EntryPointSpec, manifest: BuildManifest, first: TracedProfile
) -> tuple[bundle_manifest.Parameter, ...]:
    numbers = itertools.count()
    return tuple(
        bundle_manifest.Parameter(
            name=parameter,
            kind=plan.kinds[parameter],
            tree=jax_trees.describe(
                first.call.trees[parameter],
                numbers,
                manifest.where("entry_points", plan.name, "inputs", parameter),
            ),
            donated=parameter in spec.donate,
        )
        for parameter in plan.inputs
    )


def _capture_profile(
    profile: TracedProfile, root: Path, *, is_file: bool, located: bool
) -> CapturedProfile:
    """Return a traced profile with its modules; `is_file` is whether it is a model file's.

    Raises CaptureError (AOTC-E841) for a module that cannot be written, E844 for calls of a model
    file that do not match their kernels.
    """
    where, modules = label(profile.call.plan.name, profile.sizes), dict[str, Module]()
    for platform, lowered in profile.lowered.items():
        try:
            module = jax_private.static_module(lowered)
            if is_file:
                with module.context:
                    require_known_calls(module, where, static=True)
            modules[platform] = portable(module, platform, located=located)
        except AotcError:
            raise
        except jax_private.SizesError as error:
            cause = "sizes-are-excluded-by-the-export"
            raise refusal("AOTC-E846", where, str(error), cause=cause) from error
        except Exception as error:
            raise CaptureError(trace_errors.not_lowered(error, platform, where, root)) from error
    first, shapes = next(iter(modules.values())), profile.shapes()
    return CapturedProfile(
        sizes=profile.sizes,
        input_shapes=shapes.inputs,
        output_shapes=shapes.outputs,
        arguments=profile.arguments,
        module=first,
        others={name: other for name, other in modules.items() if other != first},
        control_flow=profile.control_flow,
    )


def _lifted_constants(
    name: str, lifted: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[bundle_manifest.LiftedConstant, ...]:
    """Return closed-over arrays of any profile. Raises CaptureError (AOTC-E832)."""
    raise_if(
        found
        for value in lifted.values()
        for found in trace_refusals.check_dtype(value.dtype, "", f"{name}, an array it closes over")
    )
    return tuple(
        bundle_manifest.LiftedConstant(
            tensor=key, dtype=bundle_manifest.DType(str(value.dtype)), shape=value.shape
        )
        for key, value in sorted(lifted.items())
    )


def _decisions(found: Symbolic) -> dict[str, Decision]:
    """Return the line that decides by a dimension's size, for each dimension with one."""
    places = {name: each.place.rpartition(":") for name, each in found.specialized.items()}
    return {n: Decision(file, int(line)) for n, (file, _, line) in places.items() if line.isdigit()}


def _exported(
    call: FlatCall, profiles: Sequence[TracedProfile], where: str, *, is_file: bool
) -> CapturedSymbolic:
    """Return the module that hosts compile for sizes outside of all profiles.

    Raises CaptureError: AOTC-E839 if jax cannot export it, E844 for calls of a model file that do
    not match their kernels.
    """
    # The loader compiles it on processors only; entry points without a policy have none.
    targets = {t for p in profiles for t in _CUSTOM_CALL.findall(p.lowered[HOST].as_text())}
    known = {name for profile in profiles for name in profile.lifted}

    def lifted(value: Any) -> str | None:
        if not jnp.issubdtype(value.dtype, jax.dtypes.extended):
            name = closure_name(np.asarray(value))
            return name if name in known else None
        return None

    try:
        module, names = export_module(call, sorted(targets), lifted)
    except Exception as error:
        found = f"{type(error).__name__}: {first_line(error)}"
        cause = "function-is-not-traceable-at-symbolic-sizes"
        raise refusal("AOTC-E839", where, found, cause=cause) from error
    if is_file:
        # Callers' hosts fill in its sizes, and run it.
        with module.context:
            place = f"{call.plan.name} at sizes outside of its profiles"
            require_known_calls(module, place, static=True)
    # The host cannot look for known NaN in what XLA makes of it.
    constant_nan.guard(module)
    count = len(names) + len(call.leaves)
    arguments = (argument_at(index, names, call, donates=False) for index in range(count))
    return CapturedSymbolic(portable(module), tuple(arguments))


def _policy_findings(
    manifest: BuildManifest,
    name: str,
    inputs: Sequence[bundle_manifest.TensorSpec],
    outputs: Sequence[bundle_manifest.TensorSpec],
    symbolic: Symbolic,
) -> Iterator[Finding]:
    """Yield findings for policies that the program does not support.

    AOTC-E838 is for a dimension that the program is specialized to, E839 for inputs or outputs with
    unknown axes of the dimension, and for decisions by its size that may be unseen.
    """
    for dimension, policy in manifest.entry_points[name].out_of_profile.items():
        where = manifest.where("entry_points", name, "out_of_profile", dimension)
        if reason := symbolic.specialized.get(dimension):
            expected = f"the same operations at every size of {dimension}"
            yield finding("AOTC-E838", where, str(reason), expected=expected)
            continue
        for cause, found in _policy_obstacles(dimension, policy, inputs, outputs, symbolic):
            yield finding("AOTC-E839", where, found, cause=cause)


def _policy_obstacles(
    dimension: str,
    policy: bundle_manifest.DimensionPolicy,
    inputs: Sequence[bundle_manifest.TensorSpec],
    outputs: Sequence[bundle_manifest.TensorSpec],
    symbolic: Symbolic,
) -> Iterator[tuple[str, str]]:
    """Yield causes of AOTC-E839, each with what was found."""
    tensors = [*(("input", spec) for spec in inputs), *(("output", spec) for spec in outputs)]
    reasons = symbolic.specialized | symbolic.undetermined
    if not isinstance(policy, bundle_manifest.CompileHere):
        reasons = {name: reasons[name] for name in symbolic.unseen & {dimension}}
    unknown = [(kind, spec) for kind, spec in tensors if "?" in spec.shape]
    for kind, spec in unknown[: not reasons]:  # without a trace, no size is known
        yield "output-size-is-unknown", f"{kind} {spec.path or 'result'}, {tensor_text(spec)}"
    plan = at_once(policy)
    unfit = []
    if isinstance(plan, bundle_manifest.Split) and not unknown:
        unfit = [
            f"{kind} {spec.path or 'result'}, {tensor_text(spec)}"
            for kind, spec in tensors
            if [a for a in spec.shape if dimension in parse_expression(a).names()]
            not in ([], [dimension])
        ]
        for found in unfit:
            yield "split-needs-one-axis-per-tensor", found
    if not (unknown or unfit) and (obstacle := symbolic.obstacles.get(dimension)):
        yield from [obstacle] if obstacle[0] else ()
    if isinstance(plan, bundle_manifest.Pad):
        paths = {spec.path for spec in inputs}
        for path in sorted(plan.fill.keys() - paths):
            yield "fill-for-an-unknown-input", path
    for other, reason in [*reasons.items()][:1]:
        cause = "function-is-not-traceable-at-symbolic-sizes"
        yield cause, str(reason) if other == dimension else f"{reason} (of {other})"
