"""The XLA backend: modules to canonical executables, each in a child process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np

from aotc.backends.xla import custom_calls, objects
from aotc.backends.xla.worker import CONSTANTS_FILE, Job, Problem, Result
from aotc.config import isa
from aotc.errors import CompileError, quoted
from aotc.processes import Processes, describe_status
from aotc.stages import CompileJob, Executable
from aotc.temporaries import require_room, temporary_folder
from aotc_runtime.digest import sha256
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import BuiltWith, Cost, Memory

SECONDS_MAX = 1800.0
"""A single executable that takes half an hour is stuck; the largest of our examples takes 3 s."""

LINES_SHOWN = 12
"""Of what the compiler printed, the last ones: an assertion and its stack take about ten."""

WORKER = (sys.executable, "-P", "-m", "aotc.backends.xla.worker")


class XlaBackend:
    """XLA:CPU of the installed jaxlib.

    worker: the command that compiles what it finds in its working folder.  seconds_max: how long it
    may take for one executable.
    """

    platform = "cpu"

    def __init__(self, worker: Sequence[str] = WORKER, seconds_max: float = SECONDS_MAX) -> None:
        self._worker = tuple(worker)
        self._seconds_max = seconds_max
        self._processes = Processes()

    def toolchain(self) -> BuiltWith:
        """Versions of aotc, jax, jaxlib and XLA."""
        from aotc.backends.xla import private

        known = private.versions()
        return BuiltWith(
            aotc=version("aotc"),
            jax=version("jax"),
            jaxlib=str(known["jaxlib"]),
            jaxlib_commit=str(known["commit"]),
            xla=int(known["xla"]),
            ifrt=int(known["ifrt"]),
            stablehlo=str(known["stablehlo"]),
        )

    def compile(self, job: CompileJob) -> Executable:
        """Compile one module. Raises CompileError: AOTC-E901 the compiler refused, E902 it
        crashed, E903 it took too long, E904 a custom call the runtime cannot serve, E905 this
        jaxlib does not follow the target, E906 or is laid out in an unknown way.
        """
        target = job.target
        request = Job(
            triple=target.triple,
            cpu=target.cpu,
            features=target.features,
            tuning=target.tuning,
            options={**target.options, **job.options},
            threads=target.threads,
        )
        with temporary_folder(Path(tempfile.gettempdir()), "aotc-compile-", "") as folder:
            (folder / "job.json").write_bytes(msgspec.json.encode(request))
            (folder / "module.bin").write_bytes(job.module.artifact)
            if job.constants:
                named = {str(index): value for index, value in job.constants.items()}
                np.savez(folder / CONSTANTS_FILE, **named)  # type: ignore[arg-type]
            said = self._run(folder, job)
            result = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result)
            serialized = (folder / "executable.bin").read_bytes()
        if result.problem:
            raise _problem(job, result, said)
        return _executable(job, result, serialized, said)

    def stop(self) -> None:
        """End what is being compiled; those calls raise, and later ones do."""
        self._processes.stop()

    def _run(self, folder: Path, job: CompileJob) -> list[str]:
        """Run the worker to its end; the lines it printed. OSError if it had no room."""
        try:
            with self._processes.started(
                self._worker,
                cwd=folder,
                env=_environment(job.target.threads),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process:
                printed, _ = process.communicate(timeout=self._seconds_max)
        except subprocess.TimeoutExpired as error:
            raise _error(
                "AOTC-E903",
                job,
                f"an executable within {self._seconds_max:g} s",
                "none",
                "simplify the program, or report it to XLA",
            ) from error
        said: list[str] = printed.decode(errors="replace").strip().splitlines()
        if process.returncode != 0 or not (folder / "result.json").exists():
            require_room(folder)
            raise _error(
                "AOTC-E902",
                job,
                "the compiler process to finish",
                quoted(describe_status(process.returncode), said[-LINES_SHOWN:]),
                "a crash of XLA or LLVM: try another target, and report it with these lines",
            )
        return said


def _executable(job: CompileJob, result: Result, serialized: bytes, said: list[str]) -> Executable:
    targets = custom_calls.targets(result.hlo_text)
    if refused := [name for name in targets if not custom_calls.is_allowed(name)]:
        raise _refused_calls(job, refused)
    try:
        serialized = objects.canonical(serialized)
        inside = objects.contents(serialized)
    except objects.UnknownLayoutError as error:
        raise _unknown_jaxlib(job, str(error)) from error
    required, tuning = isa.split(inside.features)
    surplus = sorted(set(required) - set(job.target.features))
    if surplus or (inside.triple, inside.cpu) != (job.target.triple, job.target.cpu):
        found = f"code for {inside.cpu} ({inside.triple})"
        raise _unfollowed(job, found + "".join(f", with {name}" for name in surplus))
    diagnostics = list(said)
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
    return Executable(
        serialized=serialized,
        digest=sha256(serialized),
        isa=required,
        tuning=tuning,
        custom_call_targets=targets,
        memory=Memory(
            argument_bytes=result.memory["argument"],
            output_bytes=result.memory["output"],
            temp_bytes=result.memory["temp"],
            alias_bytes=result.memory["alias"],
            code_bytes=sum(map(len, inside.objects)),
        ),
        cost=Cost(
            flops=_count(result.cost, "flops"),
            transcendentals=_count(result.cost, "transcendentals"),
            bytes_accessed=_count(result.cost, "bytes accessed"),
        ),
        thunks=inside.thunks,
        captured=tuple(sorted(job.constants)),
        compile_seconds=result.compile_seconds,
        diagnostics=tuple(diagnostics),
    )


def _count(cost: dict[str, float], key: str) -> int:
    """A count of the cost model; it says -1 for what it cannot count."""
    return max(0, int(cost.get(key, 0)))


def _environment(threads: int) -> dict[str, str]:
    """Nothing of the outside steers the compiler or changes its memory layout."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    if "PYTHONPATH" in os.environ:
        # The worker has a working folder of its own, from which relative entries lead nowhere.
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(e).absolute()) for e in entries if e)
    return {
        **kept,
        "PJRT_NPROC": str(threads),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }


def _problem(job: CompileJob, result: Result, said: list[str]) -> CompileError:
    """The error for what the worker could not do."""
    if result.problem is Problem.JAXLIB:
        return _unknown_jaxlib(job, result.words)
    if result.problem is Problem.TARGET:
        return _unfollowed(job, f"{result.words} in jaxlib {version('jaxlib')}")
    # XLA names a target that nobody registered in its message; of a callback, which jaxlib has
    # registered, it only says that an attribute is missing.
    refused = [
        name
        for name in result.called
        if not custom_calls.is_allowed(name)
        and (name in result.words or custom_calls.is_callback(name))
    ]
    if refused:
        return _refused_calls(job, refused)
    return _error(
        "AOTC-E901",
        job,
        "a program that XLA compiles for this target",
        quoted(result.words, said[-LINES_SHOWN:]),
        "the message is XLA's; the operation it names is in the entry point",
    )


def _refused_calls(job: CompileJob, refused: list[str]) -> CompileError:
    return _error(
        "AOTC-E904",
        job,
        "only custom calls that the runtime can serve: TopK, lapack_*_ffi",
        ", ".join(refused),
        "remove the callback from the function"
        if any(custom_calls.is_callback(name) for name in refused)
        else "express the operation in plain jax",
    )


def _unfollowed(job: CompileJob, found: str) -> CompileError:
    return _error(
        "AOTC-E905",
        job,
        f"code for {job.target.cpu} ({job.target.triple}) with the target's features and no others",
        found,
        "leave out what this jaxlib does not know, or build with a newer one",
    )


def _unknown_jaxlib(job: CompileJob, found: str) -> CompileError:
    return _error(
        "AOTC-E906",
        job,
        "jaxlib's interfaces and executables as in 0.11.2 to 0.12.0",
        f"{found} (jaxlib {version('jaxlib')})",
        "install a jaxlib version that this aotc supports: `pip install 'jaxlib>=0.11.2,<0.13'`",
    )


def _error(code: str, job: CompileJob, expected: str, found: str, hint: str) -> CompileError:
    return CompileError(
        Finding(
            code=code,
            where=f"{job.label} for {job.target.name}",
            expected=expected,
            found=found,
            hint=hint,
        )
    )
