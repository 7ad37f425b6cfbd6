"""Tracing an entry point at one shape profile, and refusing what cannot be shipped.

All profiles of an entry point, and what they share: `aotc.capture.traced_entry_points`.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotc.base.errors import BuildManifestError, CaptureError, raise_if, refusal
from aotc.base.evidence import ControlFlow
from aotc.capture import (
    jax_private,
    jax_trees,
    line_coverage,
    random_keys,
    trace_errors,
    trace_refusals,
)
from aotc.capture.call_arguments import FlatCall
from aotc.capture.leaf_axes import Shapes, shapes_of
from aotc.capture.traced_shardings import ArrayShardings
from aotc.capture.weight_sets import CLOSURE
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Argument, InputArgument, KeyImpl, WeightArgument
from aotc_runtime.schema.manifest_labels import label

HOST = "cpu"
"""The platform of plain JAX, which runs on the host of the build."""


@dataclass(frozen=True, slots=True)
class Platforms:
    """The platforms that an entry point is lowered for.

    `targets` are those of the targets. With `is_recorded`, plain JAX does not run it on this host,
    since its results were recorded elsewhere. With `located`, modules have their source lines.
    """

    targets: tuple[str, ...] = (HOST,)
    is_recorded: bool = False
    located: bool = False

    @property
    def every(self) -> tuple[str, ...]:
        """The host's comes first, if it is among them."""
        is_run_here = HOST in self.targets or not self.is_recorded
        others = [each for each in self.targets if each != HOST]
        return (*([HOST] if is_run_here else []), *others)


ON_HOST = Platforms()


@dataclass(frozen=True, slots=True)
class TracedProfile:
    """An entry point traced and lowered at one profile.

    `outputs` are abstract, as the function returns them; `weak_types` are of the output leaves.
    `lowered` is a `jax.stages.Lowered` for each platform, in the order of `Platforms.every`, and
    `arguments` are those of every lowered module, in order. `lifted` has closed-over arrays by
    tensor name, `calls` the source lines of custom calls. `traced` is the lowered
    `jax.stages.Traced`.
    """

    sizes: dict[str, int]
    call: FlatCall
    outputs: Any
    weak_types: tuple[bool, ...]
    lowered: Mapping[str, Any]
    arguments: tuple[Argument, ...]
    lifted: dict[str, np.ndarray[Any, Any]]
    control_flow: ControlFlow
    calls: Mapping[str, str]
    traced: Any

    def shapes(self) -> Shapes:
        """Return the shapes of its inputs and outputs."""
        return shapes_of(self.call, self.outputs)


def _trace(
    call: FlatCall, where: str, root: Path, on_mesh: ArrayShardings | None, sizes: Mapping[str, int]
) -> tuple[Any, list[KeyImpl | None]]:
    """Return a `jax.stages.Traced` of the flat call, and which of its outputs are random keys.

    Raises CaptureError (E825, E826, E828, E829).
    """
    impls: list[KeyImpl | None] = []

    def checked(*leaves: Any) -> Any:
        result = call(*leaves)
        raise_if(trace_refusals.check_outputs(result, where))
        impls[:] = [random_keys.impl_of(leaf) for leaf in jax.tree.leaves(result)]
        return jax.tree.map(random_keys.data_of, result)

    donated = tuple(index for index, leaf in enumerate(call.leaves) if leaf.donated)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=trace_errors.NARROWED)
            data = [leaf.data for leaf in call.leaves]
            shardings: dict[str, Any] = {}
            if on_mesh is not None:
                result = jax.eval_shape(checked, *data)
                shardings = on_mesh.jit_arguments(call, random_keys.key_avals(result, impls), sizes)
            traced = jax.jit(checked, donate_argnums=donated, **shardings).trace(*data)
            return traced, impls
    except (BuildManifestError, CaptureError):
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(trace_errors.not_traced(error, call, where, root)) from error


def _lower(traced: Any, platforms: Platforms, where: str, root: Path) -> dict[str, Any]:
    """Lower a traced function for each platform.

    Raises CaptureError with a finding per platform: AOTC-E841 for a target's, E842 for the host's.
    """
    lowered: dict[str, Any] = {}
    failed: list[Finding] = []
    cause: Exception | None = None
    for platform in platforms.every:
        try:
            lowered[platform] = traced.lower(lowering_platforms=(platform,))
        except Exception as error:  # noqa: BLE001 - jax, or a lowering of the user's or a library's
            cause = cause or error
            if platform in platforms.targets:
                failed.append(trace_errors.not_lowered(error, platform, where, root))
            else:
                failed.append(trace_errors.not_run(error, where, root))
    if failed:
        raise CaptureError(*failed) from cause
    return lowered


def trace_profile(
    call: FlatCall,
    sizes: dict[str, int],
    root: Path,
    on_mesh: ArrayShardings | None = None,
    platforms: Platforms = ON_HOST,
) -> TracedProfile:
    """Trace a call, reject what cannot be shipped, and lower it.

    Raises CaptureError (AOTC-E822 to E837, E841, E842, E848).
    """
    where = label(call.plan.name, sizes)
    traced, impls = _trace(call, where, root, on_mesh, sizes)
    try:
        outputs = random_keys.key_avals(traced.out_info, impls)
    except Exception as error:
        said, cause = f"{type(error).__name__}: {error}", "class-cannot-hold-abstract-values"
        raise refusal("AOTC-E833", f"{where} result", said, cause=cause) from error
    leaves = [(path, random_keys.data_aval(leaf)) for path, leaf in jax_trees.leaf_paths(outputs)]
    donated = [
        (jax_trees.join(leaf.owner, leaf.path), leaf.aval) for leaf in call.leaves if leaf.donated
    ]
    accelerators = sorted({*platforms.targets} - {HOST})
    found = [
        *(each for check in trace_refusals.CHECKS for each in check(traced.jaxpr, where, root)),
        *trace_refusals.check_empty(traced.jaxpr, accelerators, where, root),
        *trace_refusals.check_inputs(traced.jaxpr, len(call.leaves), where),
        *trace_refusals.check_donation(donated, (leaf for _, leaf in leaves), where),
        *(
            finding
            for path, leaf in leaves
            for finding in trace_refusals.check_dtype(
                leaf.dtype, path or "result", f"{where} output"
            )
        ),
    ]
    # Once for an operation that a transformation (remat, grad) has duplicated.
    raise_if(dict.fromkeys(found))
    lowered = _lower(traced, platforms, where, root)
    # Closed-over arrays and unused arguments depend on the jaxpr alone, not on the platform.
    constants, kept = jax_private.lowered_parts(next(iter(lowered.values())))
    names = [*map(closure_name, constants)]
    return TracedProfile(
        sizes=sizes,
        call=call,
        outputs=outputs,
        weak_types=tuple(aval.weak_type for aval in traced.jaxpr.out_avals),
        lowered=lowered,
        arguments=tuple(argument_at(index, names, call) for index in kept),
        lifted=dict(zip(names, constants, strict=True)),
        control_flow=line_coverage.control_flow(traced.jaxpr.jaxpr),
        calls=trace_refusals.custom_calls(traced.jaxpr, root),
        traced=traced,
    )


def closure_name(value: np.ndarray[Any, Any]) -> str:
    """Return the tensor name of a closed-over array: a digest of its dtype, shape and bytes."""
    digest = sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    return digest.removeprefix("sha256:")[:16]


def argument_at(
    index: int, constants: list[str], call: FlatCall, *, donates: bool = True
) -> Argument:
    """Return the source of a module's parameter: closed-over arrays, then leaves of the call.

    `constants` names these arrays; `donates` is whether donated inputs are aliased.
    """
    if index < len(constants):
        return WeightArgument(set=CLOSURE, tensor=constants[index])
    position = index - len(constants)
    leaf = call.leaves[position]
    if leaf.is_weight:
        return WeightArgument(set=leaf.owner, tensor=leaf.path)
    weights = sum(other.is_weight for other in call.leaves)
    return InputArgument(leaf=position - weights, aliased=leaf.donated and donates)
