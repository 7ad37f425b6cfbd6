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
from pathlib import Path
from typing import Any

from msgspec import Struct

from aotc.backends.worker_folder import Made, Problem, ProblemError, Result, answer, telling
from aotc.backends.xla import custom_calls, processors
from aotc.config import isa

ADDR_NO_RANDOMIZE = 0x0040000
QUERY = 0xFFFFFFFF

CONSTANTS_FILE = "constants.npz"
"""Values of parameters that become constants, by index; only where there are any."""


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


@telling
def compile_job(job: Job, artifact: bytes, *, randomized: bool, own_threads: bool) -> Made:
    """Compile for the target. randomized, own_threads: as in `Result`."""
    from aotc.backends.xla import debug_options, private, topology
    from aotc.backends.xla.artifacts import compile_artifact, require_names

    require_names()
    client = private.cpu_client(len(job.devices))
    try:
        host = topology.read_machine(private.host_topology(client))
    except topology.UnknownTopologyError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    known = isa.names(host.features.split(","))
    if unknown := sorted(set(job.features) - known):
        raise ProblemError(Problem.TARGET, "no feature " + ", ".join(unknown))
    machine = topology.Machine(job.triple, job.cpu, isa.llvm(job.features, job.tuning, known))

    def prepare(module: Any, called: tuple[str, ...]) -> None:
        if Path(CONSTANTS_FILE).exists():
            _embed(module)
        if any(custom_calls.is_lapack(target) for target in called):
            private.register_lapack()

    made = compile_artifact(
        artifact,
        prepare,
        lambda module: private.compile_module(module, machine, client, job.options, job.devices),
    )
    serialized = made.executable.serialize()
    try:
        changed = debug_options.changed(serialized, private.default_options())
    except ValueError as error:
        raise ProblemError(Problem.JAXLIB, str(error)) from error
    result = Result(
        called=made.called,
        compile_seconds=made.seconds,
        hlo_text=private.hlo_text(made.executable),
        memory=private.memory(made.executable),
        cost=private.cost(client, made.executable),
        randomized=randomized,
        own_threads=own_threads,
        operations=made.operations,
        debug_options=changed,
    )
    return result, serialized


def _embed(module: Any) -> None:
    import numpy as np

    from aotc.backends.xla.constants import embed

    with np.load(CONSTANTS_FILE) as values:
        embed(module, {int(index): values[index] for index in values.files})


def compile_apart(job: Job, artifact: bytes) -> Made:
    """As `compile_job`, where memory is laid out the same way each time."""
    randomized = fix_address_layout()
    own_threads = not processors.pretend(job.threads)
    outcome: list[Made] = []

    # A thread of its own has a malloc arena of its own, whatever the main thread did before.
    thread = threading.Thread(
        target=lambda: outcome.append(
            compile_job(job, artifact, randomized=randomized, own_threads=own_threads)
        )
    )
    thread.start()
    thread.join()
    if not outcome:
        sys.exit("the compile thread ended by the exception above")
    return outcome[0]


if __name__ == "__main__":
    answer(Job, compile_apart)
