"""The IREE backend: modules to modules of IREE's virtual machine, each in a child process."""

import re
from collections.abc import Sequence

from aotc.base.errors import CompileError, refusal
from aotc.base.stages import CompileJob, Executable
from aotc.compile.compile_refusals import place_of, refused_calls, require_installed, require_word
from aotc.compile.compile_workers import WorkerBackend, executable_of
from aotc.compile.cpu import cpu_isa
from aotc.compile.worker_results import Problem, Result
from aotc.compile.xla.xla_compiler import built_with
from aotc.engines.iree.iree_job import COMPILER, DRIVER, LEVEL, LEVELS, Job
from aotc_runtime.base.errors import AotcError
from aotc_runtime.engines.iree.iree_names import DRIVERS
from aotc_runtime.schema.bundle_manifest import BuiltWith, Target


def llvm_features(target: Target) -> str:
    """Return the features for LLVM, with known ones that the target lacks excluded.

    A processor's name implies features of its own, which no requirement would check on the host.
    """
    known = cpu_isa.ARM_FEATURES if cpu_isa.is_arm(target.triple) else cpu_isa.FEATURES
    return cpu_isa.llvm(target.features, target.tuning, known)


OPTION = "iree-"
"""Options of targets that are for this compiler; others are XLA's."""

FLAGS = (
    "--iree-input-type=stablehlo",
    # By default float64 becomes float32.
    "--iree-input-demote-f64-to-f32=false",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    # An ELF that IREE's own loader reads, the same for every system and C library.
    "--iree-llvmcpu-link-embedded=true",
    "--iree-llvmcpu-debug-symbols=false",
    "--iree-vm-bytecode-module-strip-source-map=true",
)

CRASHED, SLOW = "AOTC-E902", "AOTC-E903"

_ERROR = re.compile(r"error: (.*)")
_OPERATION = re.compile(r"'([a-z_]+\.[A-Za-z_.0-9]+)'|= \"?([a-z_]+\.[A-Za-z_.0-9]+)\"?[ (]")
_WORDS_MAX = 300
"""IREE repeats whole functions in its messages."""


class IreeBackend(WorkerBackend):
    """The installed compiler of IREE; `seconds_max` limits one executable at one level."""

    WORKER = "aotc.engines.iree.iree_worker"
    platform = "iree"

    def toolchain(self) -> BuiltWith:
        """Return versions of aotc, jax, jaxlib and IREE. Raises CompileError (AOTC-E907)."""
        return built_with(require_installed("iree", "iree", COMPILER))

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module at the highest level at which it compiles.

        Raises CompileError: AOTC-E902 the compiler crashed at every level, E903 it took too long,
        E904 a custom call, E907 it is missing, E916 it refused the program at every level.
        """
        if job.mesh is not None:
            found, cause = f"{len(job.mesh.devices)} devices", "engine-supports-one-device-only"
            raise refusal("AOTC-E916", place_of(job), found, cause=cause)
        options = _options(job)
        stated = options.pop(LEVEL, None)
        driver = require_word(job, DRIVER, options.pop(DRIVER, ""), DRIVERS)
        above: list[str] = []
        failed: AotcError | None = None
        for level in LEVELS if stated is None else (stated,):
            every = sorted({**options, LEVEL: level}.items())
            named = [f"--{name}={value}" for name, value in every]
            flags = (*FLAGS, *_target_flags(job.target), *named)
            request = Job(
                artifact=job.module.artifact,
                flags=flags,
                weights=job.weights,
                threads=job.target.threads,
                driver=driver,
            )
            try:
                result, said = self._run(job, request)
            except CompileError as error:
                if error.findings[0].code != CRASHED:
                    raise
                failed = error
                above.append(f"{level}: the compiler crashed")
                continue
            if not result.problem:
                diagnostics = [f"not compiled at {each}" for each in above]
                return executable_of(job, result, diagnostics)
            failed = _problem(job, result, said)
            above.append(f"{level}: {complaint(said) or result.words}")
        assert failed is not None, "there is a level"
        raise failed


def _options(job: CompileJob) -> dict[str, str]:
    every = {**job.target.options, **job.options}
    return {name: value for name, value in every.items() if name.startswith(OPTION)}


def _target_flags(target: Target) -> tuple[str, ...]:
    return (
        f"--iree-llvmcpu-target-triple={target.triple}",
        f"--iree-llvmcpu-target-cpu={target.cpu}",
        f"--iree-llvmcpu-target-cpu-features={llvm_features(target)}",
    )


def _problem(job: CompileJob, result: Result, said: Sequence[str]) -> AotcError:
    """Return the error of the last level, which made nothing."""
    assert result.problem is Problem.PROGRAM
    if result.called:
        instead = 'list another engine behind it: engines = ["iree", "xla"]'
        return refused_calls(job, result.called, "", instead)
    words = result.words or f"IREE: {complaint(said) or 'no executable'}"
    return refusal("AOTC-E916", place_of(job), words)


def complaint(said: Sequence[str]) -> str:
    """Return IREE's message about a rejected module, in a line that names the operation."""
    for index, line in enumerate(said):
        if error := _ERROR.search(line):
            words = error[1][:_WORDS_MAX]
            if not _OPERATION.search(words):
                named = (_OPERATION.search(below) for below in said[index + 1 : index + 4])
                operation = next((found[1] or found[2] for found in named if found), "")
                return f"{words} (at {operation})" if operation else words
            return words
    return ""
