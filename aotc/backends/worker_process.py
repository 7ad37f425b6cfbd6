"""Compile workers of any backend: a process per executable, what it gets, and how it fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.backends import pass_log
from aotc.errors import CompileError, quoted
from aotc.processes import Processes, describe_status
from aotc.stages import CompileJob
from aotc.temporaries import require_room
from aotc_runtime.errors import Finding
from aotc_runtime.schema.manifest import Cost, Memory

SECONDS_MAX = 1800.0
"""A single executable that takes half an hour is stuck; the largest of our examples takes 3 s."""

LINES_SHOWN = 12
"""Of what the compiler printed, the last ones: an assertion and its stack take about ten."""

RESULT_FILE = "result.json"


def run(
    processes: Processes,
    worker: Sequence[str],
    folder: Path,
    job: CompileJob,
    environment: Mapping[str, str],
    seconds_max: float,
) -> list[str]:
    """Run a worker in its folder to its end; the lines it printed.

    Raises CompileError: AOTC-E903 it took too long, E902 it crashed; OSError if it had no room.
    """
    try:
        with processes.started(
            worker,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            printed, _ = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired as error:
        raise failure(
            "AOTC-E903",
            job,
            f"an executable within {seconds_max:g} s",
            "none",
            "simplify the program, or report it to XLA",
        ) from error
    said: list[str] = printed.decode(errors="replace").strip().splitlines()
    if process.returncode != 0 or not (folder / RESULT_FILE).exists():
        require_room(folder)
        raise failure(
            "AOTC-E902",
            job,
            "the compiler process to finish",
            quoted(describe_status(process.returncode), pass_log.split(said)[1][-LINES_SHOWN:]),
            "a crash of XLA or LLVM: try another target, and report it with these lines",
        )
    return said


def environment(**more: str) -> dict[str, str]:
    """Nothing of the outside steers the compiler or changes its memory layout. more: variables."""
    kept = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    if "PYTHONPATH" in os.environ:
        # The worker has a working folder of its own, from which relative entries lead nowhere.
        entries = os.environ["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(e).absolute()) for e in entries if e)
    return {
        **kept,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        **more,
    }


def failure(code: str, job: CompileJob, expected: str, found: str, hint: str) -> CompileError:
    """Why a job was not compiled."""
    return CompileError(
        Finding(
            code=code,
            where=f"{job.label} for {job.target.name}",
            expected=expected,
            found=found,
            hint=hint,
        )
    )


def memory_of(analysis: Mapping[str, int], code_bytes: int) -> Memory:
    """XLA's memory analysis as the bundle has it. analysis: bytes by purpose."""
    return Memory(
        argument_bytes=analysis["argument"],
        output_bytes=analysis["output"],
        temp_bytes=analysis["temp"],
        alias_bytes=analysis["alias"],
        code_bytes=code_bytes,
    )


def cost_of(analysis: Mapping[str, Any]) -> Cost:
    """XLA's cost analysis as the bundle has it; it says -1 for what it cannot count."""

    def count(key: str) -> int:
        return max(0, int(analysis.get(key, 0)))

    return Cost(
        flops=count("flops"),
        transcendentals=count("transcendentals"),
        bytes_accessed=count("bytes accessed"),
    )
