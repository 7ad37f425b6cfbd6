"""Child processes end when their block does, and when another thread says so."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from aotc.processes import Processes, StoppedError

SLEEPING = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)")


def test_leaving_the_block_ends_the_process() -> None:
    with pytest.raises(KeyboardInterrupt), Processes().started(SLEEPING) as process:
        raise KeyboardInterrupt
    assert process.returncode == -9


def test_stopping_ends_what_other_threads_wait_for_and_starts_nothing_more() -> None:
    processes = Processes()
    statuses: list[int] = []
    under_way = threading.Barrier(3)

    def wait() -> None:
        with processes.started(SLEEPING, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            under_way.wait()
            statuses.append(process.wait())

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    under_way.wait()
    processes.stop()
    for thread in threads:
        thread.join()
    assert statuses == [-9, -9]
    with pytest.raises(StoppedError), processes.started(SLEEPING):
        raise AssertionError("nothing is started any more")
