"""`python -m aotc.backends.xla.worker`: compile `module.bin` here as `job.json` says.

One executable per process: buffer assignment and kernel order depend on heap and address layout,
so that a second compilation in the same process, or one with address space randomization, gives
other bytes. Uses jaxlib alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aotc.backends.xla import custom_calls, processors
from aotc.config import isa
from aotc.evidence import ExecutableEvidence
from aotc.processes import end_with_parent

ADDR_NO_RANDOMIZE = 0x0040000
QUERY = 0xFFFFFFFF

CONSTANTS_FILE = "constants.npz"
"""Values of parameters that become constants, by index; only where there are any."""


class Problem(StrEnum):
    """Why nothing was compiled: what the program, the target or the installed jaxlib lacks."""

    NONE = ""
    PROGRAM = "program"
    TARGET = "target"
    JAXLIB = "jaxlib"


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for; the fields of `Target` that concern the compiler. devices: of each
    partition of the module.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    tuning: tuple[str, ...]
    options: dict[str, str]
    threads: int
    devices: tuple[int, ...]


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """What was made, beside `executable.bin`; or a problem, in the compiler's words.

    called: custom call targets of the module.  hlo_text: the optimized HLO.  memory: bytes by
    purpose.  randomized: whether address space randomization was on.  own_threads: whether loops
    were cut for this host's processors instead of the target's.  operations: of the StableHLO
    module, by name.  debug_options: how many of XLA's have another value than by default.
    evidence: of an executable that is opaque to us.
    """

    problem: Problem = Problem.NONE
    words: str = ""
    called: tuple[str, ...] = ()
    compile_seconds: float = 0.0
    hlo_text: str = ""
    memory: dict[str, int] = {}
    cost: dict[str, float] = {}
    randomized: bool = False
    own_threads: bool = False
    operations: dict[str, int] = {}
    debug_options: int = 0
    evidence: ExecutableEvidence | None = None


def fix_address_layout() -> bool:
    """Turn address space randomization off, by starting this process anew; whether it is still on.

    Some container runtimes forbid it; the build goes on and says so.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    persona = int(libc.personality(QUERY))
    if persona == -1:
        return True
    if not persona & ADDR_NO_RANDOMIZE:
        if libc.personality(persona | ADDR_NO_RANDOMIZE) == -1:
            return True
        os.execv(sys.executable, sys.orig_argv)
    return False


def compile_job(
    job: Job, artifact: bytes, constants: Path, *, randomized: bool, own_threads: bool
) -> tuple[Result, bytes]:
    """Compile; the executable's raw bytes, or a problem in the result. constants: where their file
    is, if there is one.
    """
    from aotc.backends.xla import debug_options, private, topology

    if absent := private.missing():
        return Result(problem=Problem.JAXLIB, words="no " + ", ".join(absent)), b""
    client = private.cpu_client(len(job.devices))
    try:
        host = topology.read_machine(private.host_topology(client))
    except topology.UnknownTopologyError as error:
        return Result(problem=Problem.JAXLIB, words=str(error)), b""
    known = isa.names(host.features.split(","))
    if unknown := sorted(set(job.features) - known):
        return Result(problem=Problem.TARGET, words="no feature " + ", ".join(unknown)), b""
    machine = topology.Machine(job.triple, job.cpu, isa.llvm(job.features, job.tuning, known))
    called: tuple[str, ...] = ()
    try:
        module = private.read_artifact(artifact)
        called = tuple(private.custom_call_targets(module))
        operations = private.operations(module)
        if constants.exists():
            _embed(module, constants)
        if any(custom_calls.is_lapack(target) for target in called):
            private.register_lapack()
        started = time.perf_counter()
        executable = private.compile_module(module, machine, client, job.options, job.devices)
    except (private.XlaError, private.MlirError, ValueError) as error:
        return Result(problem=Problem.PROGRAM, words=str(error), called=called), b""
    seconds = time.perf_counter() - started
    serialized = executable.serialize()
    try:
        changed = debug_options.changed(serialized, private.default_options())
    except ValueError as error:
        return Result(problem=Problem.JAXLIB, words=str(error)), b""
    result = Result(
        called=called,
        compile_seconds=seconds,
        hlo_text=private.hlo_text(executable),
        memory=private.memory(executable),
        cost=private.cost(client, executable),
        randomized=randomized,
        own_threads=own_threads,
        operations=operations,
        debug_options=changed,
    )
    return result, serialized


def _embed(module: Any, constants: Path) -> None:
    import numpy as np

    from aotc.backends.xla.constants import embed

    with np.load(constants) as values:
        embed(module, {int(index): values[index] for index in values.files})


def main() -> None:
    end_with_parent()
    randomized = fix_address_layout()
    job = msgspec.json.decode(Path("job.json").read_bytes(), type=Job)
    artifact = Path("module.bin").read_bytes()
    own_threads = not processors.pretend(job.threads)
    outcome: list[tuple[Result, bytes]] = []

    # A thread of its own has a malloc arena of its own, whatever the main thread did before.
    thread = threading.Thread(
        target=lambda: outcome.append(
            compile_job(
                job,
                artifact,
                Path(CONSTANTS_FILE),
                randomized=randomized,
                own_threads=own_threads,
            )
        )
    )
    thread.start()
    thread.join()
    if not outcome:
        sys.exit("the compile thread ended by the exception above")
    result, serialized = outcome[0]
    Path("executable.bin").write_bytes(serialized)
    Path("result.json").write_bytes(msgspec.json.encode(result))
    # Nothing that follows is of use, and the client's shutdown takes time.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
