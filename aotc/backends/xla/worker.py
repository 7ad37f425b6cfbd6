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
from pathlib import Path

import msgspec
from msgspec import Struct

ADDR_NO_RANDOMIZE = 0x0040000
QUERY = 0xFFFFFFFF


class Job(Struct, frozen=True, forbid_unknown_fields=True):
    """What to compile for. features: LLVM's feature string."""

    triple: str
    cpu: str
    features: str
    options: dict[str, str]


class Result(Struct, frozen=True, forbid_unknown_fields=True):
    """What was made, beside `executable.bin`; or `error`, in the compiler's words."""

    error: str = ""
    compile_seconds: float = 0.0
    hlo_text: str = ""
    memory: dict[str, int] = {}
    cost: dict[str, float] = {}
    randomized: bool = False


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


def compile_job(job: Job, artifact: bytes, *, randomized: bool) -> tuple[Result, bytes]:
    """Compile; the executable's raw bytes, or an error in the result."""
    from aotc.backends.xla import private

    client = private.cpu_client()
    topology = private.with_machine(
        private.host_topology(client), job.triple, job.cpu, job.features
    )
    started = time.perf_counter()
    try:
        executable = private.compile_artifact(artifact, topology, job.options)
    except (private.XlaError, ValueError) as error:
        return Result(error=str(error)), b""
    seconds = time.perf_counter() - started
    serialized = executable.serialize()
    stats = executable.get_compiled_memory_stats()
    memory = {
        name: int(getattr(stats, f"{name}_size_in_bytes"))
        for name in ("argument", "output", "temp", "alias")
    }
    result = Result(
        compile_seconds=seconds,
        hlo_text=executable.hlo_modules()[0].to_string(),
        memory=memory,
        cost=private.cost(client, executable),
        randomized=randomized,
    )
    return result, serialized


def main() -> None:
    randomized = fix_address_layout()
    job = msgspec.json.decode(Path("job.json").read_bytes(), type=Job)
    artifact = Path("module.bin").read_bytes()
    outcome: list[tuple[Result, bytes]] = []

    # A thread of its own has a malloc arena of its own, whatever the main thread did before.
    thread = threading.Thread(
        target=lambda: outcome.append(compile_job(job, artifact, randomized=randomized))
    )
    thread.start()
    thread.join()
    result, serialized = outcome[0]
    Path("executable.bin").write_bytes(serialized)
    Path("result.json").write_bytes(msgspec.json.encode(result))
    # Nothing that follows is of use, and the client's shutdown takes time.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
