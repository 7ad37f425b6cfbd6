"""Child processes end when their block does, and when another thread says so."""

import os
import select
import subprocess
import sys
import threading

import pytest

from aotc.base.child_processes import Processes, StoppedError

SLEEPING = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)")


GRANDPARENT = (
    sys.executable,
    "-c",
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', "
    "'import time; time.sleep(60)']); print(child.pid, flush=True); child.wait()",
)


@pytest.mark.parametrize("by_stopping", [False, True])
def test_what_a_process_has_started_ends_with_it(by_stopping: bool) -> None:
    processes = Processes()
    with processes.start(GRANDPARENT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        watched = os.pidfd_open(grandchild)
        if by_stopping:
            processes.stop()
    # Readable when it has ended.
    assert select.select([watched], [], [], 30)[0] == [watched]
    os.close(watched)


def test_stopping_ends_what_other_threads_wait_for_and_starts_nothing_more() -> None:
    processes = Processes()
    statuses: list[int] = []
    under_way = threading.Barrier(3)

    def wait() -> None:
        with processes.start(SLEEPING, stdout=subprocess.PIPE) as process:
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
    with pytest.raises(StoppedError), processes.start(SLEEPING):
        raise AssertionError("nothing is started any more")
