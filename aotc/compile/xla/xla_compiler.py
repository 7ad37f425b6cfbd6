"""The XLA backend: modules to canonical executables, each in a child process of its own."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from io import BytesIO
from typing import Any

import numpy as np
from msgspec import structs

from aotc.base.errors import refusal
from aotc.base.evidence import CompilerRecord, Pipeline
from aotc.base.stages import CompileJob, Executable
from aotc.base.workers import worker_environment
from aotc.base.workers.forked_workers import Zygotes, zygotes_of
from aotc.compile import pass_log
from aotc.compile.compile_refusals import place_of, refused_calls, refused_program, unknown_jaxlib
from aotc.compile.compile_workers import WorkerBackend, executable_of, memory_of
from aotc.compile.cpu import cpu_isa
from aotc.compile.worker_results import Problem, Result
from aotc.compile.xla import cpu_evidence, xla_custom_calls, xla_objects
from aotc.compile.xla.xla_job import Job
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.bundle_manifest import BuiltWith

SHARDY_NOTICE = "HloShardingV3"
"""Part of a warning that jaxlib 0.12 prints for every portable artifact with shardings."""


class XlaBackend(WorkerBackend):
    """XLA:CPU of the installed jaxlib, whose workers are forked processes."""

    WORKER = "aotc.compile.xla.xla_worker"
    platform = "cpu"

    def _default_worker(self) -> Zygotes:
        return zygotes_of(self.WORKER)

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib and XLA."""
        return built_with({})

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module.

        Raises:
            CompileError: AOTC-E901 the compiler rejects it, E902 it crashed, E903 it took too long,
                E904 a custom call the runtime cannot serve, E905 the code is not for the target,
                E906 this jaxlib's executables have an unknown layout.
        """
        threads = str(job.target.threads)
        variables = worker_environment.bare(PJRT_NPROC=threads, **pass_log.ENVIRONMENT)
        result, said = self._run(job, request_of(job), lambda folder: variables)
        pipelines, said = pass_log.split(said)
        if result.problem:
            raise _problem(job, result, said)
        return _executable(job, result, said, pipelines)


def request_of(job: CompileJob) -> Job:
    """Return what a worker is asked for."""
    target = job.target
    return Job(
        artifact=job.module.artifact,
        triple=target.triple,
        cpu=target.cpu,
        features=target.features,
        tuning=target.tuning,
        options={**target.options, **job.options},
        threads=target.threads,
        devices=(0,) if job.mesh is None else job.mesh.devices,
        constants=_npz(job.constants) if job.constants else b"",
    )


def _npz(arrays: Mapping[int, np.ndarray[Any, Any]]) -> bytes:
    """Return the arrays as a .npz file, by their indexes."""
    file = BytesIO()
    np.savez(file, **{str(index): array for index, array in arrays.items()})  # type: ignore[arg-type]
    return file.getvalue()


def built_with(tools: Mapping[str, str]) -> BuiltWith:
    """Return the installed toolchain, with the versions in `tools` by distribution."""
    from aotc.compile.xla import jaxlib_private

    known = jaxlib_private.versions()
    return BuiltWith(
        aotc=version("aotc"),
        jax=version("jax"),
        jaxlib=str(known["jaxlib"]),
        jaxlib_commit=str(known["commit"]),
        xla=int(known["xla"]),
        ifrt=int(known["ifrt"]),
        stablehlo=str(known["stablehlo"]),
        tools=dict(sorted(tools.items())),
    )


def _executable(
    job: CompileJob, result: Result, said: list[str], pipelines: tuple[Pipeline, ...]
) -> Executable:
    targets = xla_custom_calls.targets(result.hlo_text)
    if refused := [name for name in targets if not xla_custom_calls.is_allowed(name)]:
        raise refused_calls(job, refused, xla_custom_calls.SERVED)
    try:
        serialized = xla_objects.canonical(result.serialized)
        inside = xla_objects.contents(serialized)
        compilation = CompilerRecord(
            options=dict(
                sorted({**result.added_options, **job.target.options, **job.options}.items())
            ),
            debug_options=result.debug_options,
            pipelines=pipelines,
        )
        evidence = cpu_evidence.examine(inside, result.operations, compilation)
    except xla_objects.UnknownLayoutError as error:
        raise unknown_jaxlib(job, "executables", str(error)) from error
    required, tuning = cpu_isa.split(inside.features)
    surplus = sorted(set(required) - set(job.target.features))
    if surplus or (inside.triple, inside.cpu) != (job.target.triple, job.target.cpu):
        found = f"code for {inside.cpu} ({inside.triple})"
        found += "".join(f", with {name}" for name in surplus)
        expected = f"code for {job.target.cpu} ({job.target.triple}) and its features"
        raise refusal("AOTC-E905", place_of(job), found, expected=expected)
    diagnostics = [line for line in said if SHARDY_NOTICE not in line]
    if result.randomized:
        diagnostics.append(
            "address space randomization could not be turned off here: "
            "rebuilding may give other bytes"
        )
    if result.own_threads:
        diagnostics.append(
            f"loops are cut for this host's processors, not for the target's "
            f"{job.target.threads} threads: another host may give other bytes"
        )
    return replace(
        executable_of(job, structs.replace(result, serialized=serialized), diagnostics),
        isa=required,
        tuning=tuning,
        custom_call_targets=targets,
        memory=memory_of(result.memory, sum(map(len, inside.objects))),
        thunks=inside.thunks,
        captured=tuple(sorted(job.constants)),
        evidence=evidence,
    )


def _problem(job: CompileJob, result: Result, said: list[str]) -> AotcError:
    """Return the error for a failed job of the worker."""
    if result.problem is Problem.JAXLIB:
        return unknown_jaxlib(job, "executables", result.words)
    if result.problem is Problem.TARGET:
        found = f"{result.words} in jaxlib {version('jaxlib')}"
        cause = "target-feature-is-unknown-to-jaxlib"
        return refusal("AOTC-E905", place_of(job), found, cause=cause)
    # XLA names a target that nobody registered in its message; of a callback, which jaxlib has
    # registered, it only says that an attribute is missing.
    refused = [
        name
        for name in result.called
        if not xla_custom_calls.is_allowed(name)
        and (name in result.words or xla_custom_calls.is_callback(name))
    ]
    if refused:
        return refused_calls(job, refused, xla_custom_calls.SERVED)
    return refused_program(job, result.words, said)
