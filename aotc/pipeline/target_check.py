"""Can this machine compile for a target, and could this host run what it compiles?"""

import time
from dataclasses import dataclass

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob, Module
from aotc.compile.compiler_registry import kind_of
from aotc_runtime.base.errors import Finding
from aotc_runtime.engines.engine_survey import detect_all
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.system import processor_check
from aotc_runtime.verification.host_compatibility import check_host


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """The result of `aotc targets check`.

    `compiler` has the reasons why this machine cannot compile for the target, and `host` those why
    this host could not run it. `jaxlib` is the version that compiled, `seconds` the time to compile
    a trivial program, including the start of a process, and `isa` the CPU features that its code
    requires. `notes` tell more about the target with this jaxlib.
    """

    target: bundle_manifest.Target
    compiler: tuple[Finding, ...]
    jaxlib: str
    seconds: float
    isa: tuple[str, ...]
    host: tuple[Finding, ...]
    notes: tuple[str, ...]


def check_target(target: bundle_manifest.Target) -> TargetCheck:
    """Compile a trivial program for a target, and compare the target with this host.

    Raises IncompatibleHostError (AOTC-E506) where jaxlib itself cannot run, and CompileError
    (AOTC-E909) without a backend for the target's platform.
    """
    processor_check.require()
    kind = kind_of(target.platform)
    backend = kind.backend()
    built_with = backend.toolchain()
    required: tuple[str, ...] = ()
    problems: tuple[Finding, ...] = ()
    started = time.perf_counter()
    try:
        required = backend.compile(
            CompileJob("a trivial program", _module(kind.lowered_for), target)
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
        notes=kind.notes(target, built_with.jaxlib),
    )


def _module(platform: str) -> Module:
    """Return a program just large enough for a loop that uses the target's vector instructions."""
    import jax
    import jax.numpy as jnp

    from aotc.capture.portable_stablehlo import portable

    # An accelerator's plugin that is there to compile would be asked for its devices.
    jax.config.update("jax_platforms", "cpu")
    traced = jax.jit(lambda x: jnp.exp(x) + x).trace(jax.ShapeDtypeStruct((256,), jnp.float32))
    return portable(traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo"))


def _bundle_for(
    target: bundle_manifest.Target, built_with: bundle_manifest.BuiltWith
) -> bundle_manifest.BundleManifest:
    """Return the requirements of every bundle for the target."""
    return bundle_manifest.BundleManifest(
        format_version=bundle_manifest.FIRST_VERSION,
        name="any",
        version="bundle",
        target=target,
        requires=bundle_manifest.Requirements(
            platform=target.platform,
            architecture=target.triple.partition("-")[0],
            isa=target.features,
            devices=target.devices,
            custom_call_targets=(),
            memory_bytes=0,
            device=kind_of(target.platform).requirements(target, built_with, 0),
        ),
        built_with=built_with,
        accepts_jaxlib=(built_with.jaxlib,),
        dimensions={},
        weights={},
        entry_points={},
    )
