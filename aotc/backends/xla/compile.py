"""The XLA backend: modules to canonical executables, each in a child process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import msgspec

from aotc.backends.xla import custom_calls, objects
from aotc.backends.xla.worker import Job, Result
from aotc.config import isa
from aotc.errors import CompileError
from aotc.stages import CompileJob, Executable
from aotc_runtime.digest import sha256
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import BuiltWith, Cost, Memory

COMPILE_SECONDS_MAX = 1800
"""A single executable that takes half an hour is stuck; the largest of our examples takes 3 s."""

STDERR_LINES_SHOWN = 12


class XlaBackend:
    """XLA:CPU of the installed jaxlib. worker: the command that compiles, replaced in tests."""

    platform = "cpu"

    def __init__(self, worker: tuple[str, ...] = ()) -> None:
        self._worker = worker or (sys.executable, "-m", "aotc.backends.xla.worker")

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
        crashed, E903 it took too long, E904 a custom call the runtime cannot serve, E905 code for
        more than the target, E906 an unknown executable layout.
        """
        target = job.target
        request = Job(
            triple=target.triple,
            cpu=target.cpu,
            features=isa.llvm(target.features, target.tuning),
            options=target.options,
        )
        with tempfile.TemporaryDirectory(prefix="aotc-compile-") as name:
            folder = Path(name)
            (folder / "job.json").write_bytes(msgspec.json.encode(request))
            (folder / "module.bin").write_bytes(job.module.artifact)
            said = self._run(folder, job)
            result = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result)
            serialized = (folder / "executable.bin").read_bytes()
        if result.error:
            raise _error(
                "AOTC-E901",
                job,
                "a program that XLA compiles for this target",
                result.error,
                "the message is XLA's; the operation it names is in the entry point",
            )
        return self._executable(job, result, serialized, said)

    def _run(self, folder: Path, job: CompileJob) -> list[str]:
        try:
            done = subprocess.run(
                self._worker,
                cwd=folder,
                env=_environment(job.target.threads),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=COMPILE_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _error(
                "AOTC-E903",
                job,
                f"an executable within {COMPILE_SECONDS_MAX} s",
                "none",
                "simplify the program, or report it to XLA",
            ) from error
        said = done.stdout.decode(errors="replace").strip().splitlines()
        if done.returncode != 0 or not (folder / "result.json").exists():
            status = (
                f"killed by {signal.Signals(-done.returncode).name}"
                if done.returncode < 0
                else f"exit status {done.returncode}"
            )
            raise _error(
                "AOTC-E902",
                job,
                "the compiler process to finish",
                status + "".join(f"\n            | {line}" for line in said[-STDERR_LINES_SHOWN:]),
                "a crash of XLA or LLVM: try another target, and report it with these lines",
            )
        return said

    def _executable(
        self, job: CompileJob, result: Result, serialized: bytes, said: list[str]
    ) -> Executable:
        targets = custom_calls.targets(result.hlo_text)
        refused = [name for name in targets if not custom_calls.is_allowed(name)]
        if refused:
            raise _error(
                "AOTC-E904",
                job,
                "only custom calls that the runtime can serve: TopK, lapack_*_ffi",
                ", ".join(refused),
                "remove the callback from the function"
                if any(custom_calls.is_callback(name) for name in refused)
                else "express the operation in plain jax",
            )
        try:
            serialized = objects.canonical(serialized)
            inside = objects.contents(serialized)
        except objects.UnknownLayoutError as error:
            raise _error(
                "AOTC-E906",
                job,
                "an executable laid out as in jaxlib 0.11.2 to 0.12.0",
                f"{error} (jaxlib {version('jaxlib')})",
                "install a jaxlib version that this aotc supports",
            ) from error
        required, tuning = isa.split(inside.features)
        surplus = sorted(set(required) - set(job.target.features))
        if surplus or (inside.triple, inside.cpu) != (job.target.triple, job.target.cpu):
            raise _error(
                "AOTC-E905",
                job,
                f"code for {job.target.cpu} ({job.target.triple})",
                f"code for {inside.cpu} ({inside.triple}) with {', '.join(surplus) or 'no more'}",
                "this jaxlib does not follow the target's description: report it",
            )
        diagnostics = list(said)
        if result.randomized:
            diagnostics.append(
                "address space randomization could not be turned off here: "
                "rebuilding may give other bytes"
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
            ),
            cost=Cost(
                flops=_count(result.cost, "flops"),
                transcendentals=_count(result.cost, "transcendentals"),
                bytes_accessed=_count(result.cost, "bytes accessed"),
            ),
            thunks=inside.thunks,
            compile_seconds=result.compile_seconds,
            diagnostics=tuple(diagnostics),
        )


def _count(cost: dict[str, float], key: str) -> int:
    """A count of the cost model; it says -1 for what it cannot count."""
    return max(0, int(cost.get(key, 0)))


def _environment(threads: int) -> dict[str, str]:
    """Nothing of the outside steers the compiler or changes its memory layout."""
    kept = {key: os.environ[key] for key in ("PYTHONPATH", "LD_LIBRARY_PATH") if key in os.environ}
    return {
        **kept,
        "PJRT_NPROC": str(threads),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }


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
