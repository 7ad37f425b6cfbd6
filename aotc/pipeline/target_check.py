"""Can this machine compile for a target, and could this host run what it compiles?"""

from __future__ import annotations

import time
from dataclasses import dataclass

from msgspec import UNSET

from aotc.backends.registry import backend_for
from aotc.errors import CompileError
from aotc.pipeline.requirements import device_requirements
from aotc.stages import CompileJob, Module
from aotc_runtime.engines.facts import detect_all
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import (
    FIRST_FORMAT,
    BuiltWith,
    BundleManifest,
    Requirements,
    Target,
)
from aotc_runtime.system import processor
from aotc_runtime.verification.compatibility import check_host


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """What `aotc targets check` found.

    compiler: why this machine cannot compile for the target; empty if it can.  jaxlib: the version
    that compiled.  seconds: to compile a trivial program, the start of a process included.  isa:
    the CPU features that its code requires.  host: why this host could not run it; empty if it
    could.  notes: what else to know about the target with this jaxlib.
    """

    target: Target
    compiler: tuple[Finding, ...]
    jaxlib: str
    seconds: float
    isa: tuple[str, ...]
    host: tuple[Finding, ...]
    notes: tuple[str, ...]


def check_target(target: Target) -> TargetCheck:
    """Compile a trivial program for a target, and compare the target with this host.

    Raises IncompatibleHostError (AOTC-E506) where jaxlib itself cannot run, and CompileError
    (AOTC-E909) without a backend for the target's platform.
    """
    processor.require()
    backend = backend_for(target.platform)
    built_with = backend.toolchain()
    required: tuple[str, ...] = ()
    problems: tuple[Finding, ...] = ()
    started = time.perf_counter()
    try:
        required = backend.compile(
            CompileJob("a trivial program", _module(target.platform), target)
        ).isa
    except CompileError as error:
        problems = error.findings
    seconds = time.perf_counter() - started
    return TargetCheck(
        target=target,
        compiler=problems,
        jaxlib=built_with.jaxlib,
        seconds=seconds,
        isa=required,
        host=tuple(check_host(_bundle_for(target, built_with), detect_all())),
        notes=notes(target, built_with.jaxlib),
    )


def self_contained(target: Target) -> Target:
    """The target with a description of its device instead of a reference to it by name.

    Raises CompileError.
    """
    if target.platform != "cuda":
        return target
    from aotc.backends.cuda.compile import self_contained as with_description

    return with_description(target)


def notes(target: Target, jaxlib: str) -> tuple[str, ...]:
    """A sentence for each CPU feature set that this jaxlib needs beyond what the target
    promises.
    """
    if target.device is not UNSET:
        return ()
    floor = processor.floor(jaxlib)
    missing = sorted(floor - set(target.features))
    if not missing:
        return ()
    return (
        f"jaxlib {jaxlib} itself needs {', '.join(missing)}: no processor without runs the bundle",
        *(
            f"built with jaxlib {version} it needs only "
            f"{', '.join(sorted(lower - set(target.features)))} beside the target's features"
            for version, lower in processor.FLOORS.items()
            if lower < floor
        ),
    )


def _module(platform: str) -> Module:
    """A program just large enough for a loop that uses the target's vector instructions."""
    import jax
    import jax.numpy as jnp

    from aotc.lowering.stablehlo import portable

    # An accelerator's plugin that is there to compile would be asked for its devices.
    jax.config.update("jax_platforms", "cpu")
    traced = jax.jit(lambda x: jnp.exp(x) + x).trace(jax.ShapeDtypeStruct((256,), jnp.float32))
    return portable(traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo"))


def _bundle_for(target: Target, built_with: BuiltWith) -> BundleManifest:
    """What every bundle for the target requires, whatever is in it."""
    return BundleManifest(
        format_version=FIRST_FORMAT,
        name="any",
        version="bundle",
        target=target,
        requires=Requirements(
            platform=target.platform,
            architecture=target.triple.partition("-")[0],
            isa=target.features,
            devices=target.devices,
            custom_call_targets=(),
            memory_bytes=0,
            device=device_requirements(target, built_with, 0),
        ),
        built_with=built_with,
        accepts_jaxlib=(built_with.jaxlib,),
        dimensions={},
        weights={},
        entry_points={},
    )
