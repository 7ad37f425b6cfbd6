"""Measures the time and memory that a process takes until a bundle is ready.

The processes contain the runtime alone, one for each engine in turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.base.child_processes import Processes
    from aotc.pipeline.parity_check import TemporaryBundle

SECONDS_MAX = 600.0

COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "from aotc.commands.tune.startup_measurement import main; main()",
)
"""Its arguments are when it was started, a bundle and a policy. On Linux, the clock is the same in
all processes.
"""


def main() -> None:
    """Load the bundle, which runs every fixture, and report the time and memory."""
    spawned, bundle, policy = sys.argv[1:4]
    import aotc_runtime

    failed: aotc_runtime.AotcError | None = None
    try:
        aotc_runtime.load(bundle, trust=policy)
    except aotc_runtime.AotcError as error:
        failed = error
    seconds = time.monotonic() - float(spawned)
    from aotc.base.workers.worker_child import answer, peak_bytes

    taken = seconds, peak_bytes() or 0

    def told(*_: Any) -> tuple[float, int]:
        if failed is not None:
            raise failed
        return taken

    answer(type(None), told)


def measure(
    bundles: Mapping[str, TemporaryBundle],
    folder: Path,
    environment: Mapping[str, str],
    processes: Processes,
    rounds: int,
) -> tuple[dict[str, list[tuple[float, int]]], dict[str, str]]:
    """Return seconds and peak bytes of each start by engine, and why others failed.

    `rounds` count; one more goes first, and brings the files into memory.
    """
    from aotc.base.child_processes import describe_status
    from aotc.base.workers import worker_parent
    from aotc_runtime.base.errors import AotcError

    started: dict[str, list[tuple[float, int]]] = {engine: [] for engine in bundles}
    failed: dict[str, str] = {}
    for number in range(rounds + 1):
        for engine in [*started] if number % 2 == 0 else [*started][::-1]:
            made = bundles[engine]
            now = repr(time.monotonic())
            try:
                taken = worker_parent.run(
                    (*COMMAND, now, str(made.bundle), str(made.policy)),
                    None,
                    tuple[float, int],
                    within=folder,
                    environment=environment,
                    processes=processes,
                    seconds=SECONDS_MAX,
                )
            except AotcError as error:
                finding = error.findings[0]
                failed[engine] = f"{finding.code}: {finding.found}"
            except worker_parent.CrashedError as crash:
                failed[engine] = f"its process was {describe_status(crash.status)}"
            if engine in failed:
                del started[engine]
            elif number:
                started[engine].append(taken)
    return started, failed
