"""Processes that a zygote forks: they know nothing of each other, and end as others do."""

import os
import resource
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.base.child_processes import Processes, StoppedError
from aotc.base.workers import forked_workers, worker_parent
from aotc.base.workers.forked_workers import KEPT_MAX, Zygotes
from tests.refusals import error_of
from tests.waiting import in_threads, until

MODULE = """
import os, resource, signal, subprocess, sys, time
from pathlib import Path

SEEN = []
ZYGOTE = os.getpid()

def prepare():
    SEEN.append("prepared")

def work(job, progress):
    progress.started("a step")
    SEEN.append(job)
    match job:
        case "crash":
            os.abort()
        case "raise":
            raise RuntimeError("boom")
        case "exit":
            sys.exit("said at the end")
        case "hang" | "leave":
            child = subprocess.Popen(["sleep", "60"])
            Path(os.environ["STARTED"]).write_text(f"{os.getpid()} {child.pid} {os.getppid()}")
            if job == "hang":
                time.sleep(60)
        case "refuse":
            from aotc.base.errors import CaptureError
            from aotc_runtime.base.errors import Finding
            raise CaptureError(Finding("AOTC-E822", where="f", expected="a", found="b", hint="c"))
        case "zygote":
            os.kill(os.getppid(), 9)
            time.sleep(60)
    print("a word")
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    held = [os.readlink(link) for link in links if os.path.exists(link)]
    return [*SEEN, os.getcwd(), *held]

def main():
    from aotc.base.workers.worker_child import answer
    answer(str, work)
"""

ASKING = """
import os, sys
from pathlib import Path
from aotc.base.child_processes import Processes
from aotc.base.workers import forked_workers as forked
from aotc.base.workers import worker_parent as parent
from aotc.base.workers.forked_workers import KEPT_MAX, Zygotes
parent.run(Zygotes("asked"), sys.argv[1], list[str], within=Path(sys.argv[2]),
           environment=os.environ, processes=Processes())
"""


class Asking:
    """Runs jobs of a module in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, folder / "started"
        self.module, self.zygotes = folder / "asked.py", Zygotes("asked")
        self.module.write_text(MODULE)
        self.processes = Processes()
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            "STARTED": str(self.started),
        }

    def __call__(self, job: str, **more: Any) -> list[str]:
        return worker_parent.run(
            self.zygotes,
            job,
            list[str],
            within=self.folder,
            environment=self.environment,
            processes=self.processes,
            **more,
        )

    def crash(self, job: str, **more: Any) -> worker_parent.CrashedError:
        return error_of(worker_parent.CrashedError, self, job, **more)

    def numbers(self) -> list[int]:
        """Of the job that hangs, of what it has started, and of its zygote."""
        until(lambda: self.started.exists() and self.started.read_text(), "the job has begun")
        return [int(word) for word in self.started.read_text().split()]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asking]:
    asking = Asking(tmp_path)
    yield asking
    asking.zygotes.end()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_each_job_finds_what_was_prepared_alone(ask: Asking, tmp_path: Path) -> None:
    for job in ("one", "two"):
        told: dict[str, list[str]] = {"started": [], "said": []}
        (tmp_path / job).mkdir()
        seen = ask(
            job,
            working=tmp_path / job,
            on_started=told["started"].append,
            on_said=told["said"].append,
        )
        assert seen[:3] == ["prepared", job, str(tmp_path / job)]
        assert told == {"started": ["a step"], "said": ["a word"]}


def test_files_that_were_edited_are_imported_again_for_the_next_job(ask: Asking) -> None:
    assert ask("one")[0] == "prepared"
    ask.module.write_text(MODULE.replace('"prepared"', '"prepared anew"'))
    for job in ("two", "three"):
        said: list[str] = []
        assert ask(job, on_said=said.append)[:2] == ["prepared anew", job]
        assert said == ["a word"]


def test_jobs_run_beside_each_other(ask: Asking) -> None:
    found = in_threads(5, lambda _: ask("job"))
    assert len({tuple(each[:2]) for each in found}) == 1


def test_a_job_holds_no_descriptor_of_others_or_of_the_zygote(ask: Asking) -> None:
    ask("one")
    hanging = threading.Thread(target=lambda: ask.crash("hang"))
    hanging.start()
    ask.numbers()
    held = ask("two")[3:]
    ask.processes.stop()
    hanging.join()
    # The null device, where it prints, and a pipe for its progress, twice.
    assert [name for name in held if name.startswith("socket:")] == []
    assert len({name for name in held if name.startswith("pipe:")}) == 1


@pytest.mark.parametrize(
    ("job", "status", "said"),
    [("crash", -signal.SIGABRT, ""), ("raise", 1, "boom"), ("exit", 1, "said at the end")],
)
def test_crashing_job_crashes_alone(job: str, status: int, said: str, ask: Asking) -> None:
    crash = ask.crash(job)
    assert (crash.status, crash.doing) == (status, "a step")
    assert said in "\n".join(crash.said)
    assert ask("next")[1] == "next"


def test_a_job_that_takes_too_long_is_ended_with_what_it_has_started(ask: Asking) -> None:
    ask("one")
    crash = ask.crash("hang", seconds=3.0)
    assert (crash.late, crash.status) == (True, -signal.SIGKILL)
    until(lambda: all(map(is_gone, ask.numbers()[:2])), "both have ended")
    assert ask("next")[1] == "next"


def test_what_a_job_leaves_running_is_ended(ask: Asking) -> None:
    ask("leave")
    until(lambda: is_gone(ask.numbers()[1]), "it has ended")


def test_stopping_ends_what_runs_and_starts_nothing_more(ask: Asking) -> None:
    crashed: list[int] = []
    hanging = threading.Thread(target=lambda: crashed.append(ask.crash("hang").status))
    hanging.start()
    numbers = ask.numbers()
    ask.processes.stop()
    ask.zygotes.end()
    hanging.join()
    assert crashed[0] < 0
    assert is_gone(numbers[0]) and is_gone(numbers[2])
    with pytest.raises(StoppedError):
        ask("next")


def test_killed_zygote_ends_its_jobs_and_is_replaced(ask: Asking) -> None:
    hanging = threading.Thread(target=lambda: ask.crash("hang"))
    hanging.start()
    numbers = ask.numbers()
    assert ask.crash("zygote").status == -signal.SIGKILL
    hanging.join()
    until(lambda: is_gone(numbers[0]) and is_gone(numbers[2]), "both have ended")
    assert ask("next")[:2] == ["prepared", "next"]


def test_a_module_that_cannot_be_prepared_fails_each_job_with_the_reason(ask: Asking) -> None:
    ask.module.write_text(
        MODULE.replace('SEEN.append("prepared")', 'raise ImportError("no jaxlib")')
    )
    for job in ("one", "two"):
        crash = ask.crash(job)
        assert (crash.status, crash.said[-1]) == (1, "ImportError: no jaxlib")


def test_a_module_that_cannot_be_imported_fails_the_job_with_the_reason(ask: Asking) -> None:
    ask.module.write_text("raise ImportError('no jaxlib')")
    crash = ask.crash("one")
    assert (crash.status, crash.said[-1]) == (1, "ImportError: no jaxlib")


def test_what_preparing_says_every_job_says(ask: Asking) -> None:
    ask.module.write_text(MODULE.replace('SEEN.append("prepared")', 'os.write(2, b"a warning\\n")'))
    for job in ("one", "two"):
        said: list[str] = []
        ask(job, on_said=said.append)
        assert said == ["a warning\na word"]


def test_a_job_inherits_what_a_process_of_its_own_would(ask: Asking) -> None:
    """Limits, which may be others by the second job."""
    ask.module.write_text(
        MODULE.replace(
            "SEEN.append(job)", "SEEN.append(str(resource.getrlimit(resource.RLIMIT_CORE)[0]))"
        )
    )
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        for limit in (4096, 0):
            resource.setrlimit(resource.RLIMIT_CORE, (limit, before[1]))
            assert ask("job")[1] == str(limit)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_a_job_runs_where_the_folder_of_packages_is_missing(
    ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    assert ask("a")[:2] == ["prepared", "a"]


def test_only_the_last_few_zygotes_are_kept(ask: Asking) -> None:
    zygotes: list[int] = []
    for number in range(KEPT_MAX + 1):
        ask.environment["FILLER"] = str(number)
        ask("leave")
        zygotes.append(ask.numbers()[2])
        ask.started.unlink()
    until(lambda: is_gone(zygotes[0]), "it has ended")
    assert not any(map(is_gone, zygotes[1:]))


def test_builds_share_zygotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_workers, "_kept", {})
    asking = Asking(tmp_path)
    found: list[int] = []
    for _ in range(2):
        for _ in range(2):
            asking.zygotes = forked_workers.zygotes_of("asked")
            asking("leave")
            found.append(asking.numbers()[2])
            asking.started.unlink()
        forked_workers.renew()
    assert found[0] == found[1] != found[2] == found[3]
    until(lambda: all(map(is_gone, found)), "nobody can ask them")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_of_the_process_that_asks_has_zygotes_of_its_own(ask: Asking) -> None:
    ask("leave")
    zygote = ask.numbers()[2]
    ask.started.unlink()
    pid = os.fork()
    if pid == 0:
        ask("leave")
        ask.zygotes.end()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert ask.numbers()[2] != zygote and not is_gone(zygote)


def test_each_environment_has_a_zygote_of_its_own(ask: Asking, tmp_path: Path) -> None:
    ask.module.write_text(MODULE.replace("SEEN.append(job)", 'SEEN.append(os.environ["STARTED"])'))
    for name in ("here", "there"):
        ask.environment["STARTED"] = name
        assert ask("one")[1] == name


def test_everything_ends_with_the_process_that_has_asked(ask: Asking, tmp_path: Path) -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, "hang", str(tmp_path)], env=ask.environment
    )
    numbers = ask.numbers()
    asking.kill()
    asking.wait()
    until(lambda: is_gone(numbers[0]) and is_gone(numbers[2]), "both have ended")


def test_a_zygote_ends_when_nobody_can_ask_it_any_more(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    asking("leave")
    _, _, zygote = asking.numbers()
    assert not is_gone(zygote)
    del asking
    until(lambda: is_gone(zygote), "it has ended")
