"""Workers: their answers and refusals are the parent's, and any end but a proper one is a crash."""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aotc.base.child_processes import Processes
from aotc.base.errors import CaptureError
from aotc.base.workers import worker_parent
from aotc.base.workers.worker_child import ANSWER, FINDINGS
from aotc_runtime.base.errors import Finding
from tests.refusals import error_of

FINDING = Finding(code="AOTC-E822", where="f", expected="a", found="b", hint="c")

HEADER = f"""
import os, sys, threading, time
from pathlib import Path
from aotc.base.errors import CaptureError
from aotc.base.workers.worker_child import answer
from aotc_runtime.base.errors import Finding

FOLDER = Path(sys.argv[-1])
FINDING = {FINDING!r}

def refuse(job, progress):
    raise CaptureError(FINDING)

def refuse_from_a_thread(job, progress):
    threading.Thread(target=lambda: progress.refuse(CaptureError(FINDING))).start()
    time.sleep(60)

def work(job, progress):
    progress.started("a step")
    progress.finished("one")
    print("a word")
    progress.finished("two")
    return job + 1

def linger(job, progress):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return job
"""


def run(code: str, within: Path, **more: Any) -> Any:
    """Return what a worker of this code answers to 41."""
    return worker_parent.run(
        [sys.executable, "-c", HEADER + code],
        41,
        int,
        within=within,
        environment=os.environ,
        processes=Processes(),
        **more,
    )


def crash(code: str, within: Path, **more: Any) -> worker_parent.CrashedError:
    return error_of(worker_parent.CrashedError, run, code, within, **more)


def test_answer_is_returned_and_progress_told_apart_from_output(tmp_path: Path) -> None:
    told: dict[str, list[str]] = {"started": [], "finished": [], "said": []}
    answer = run(
        "print('< noise', end=''); sys.stdout.flush(); answer(int, work)",
        tmp_path,
        on_started=told["started"].append,
        on_finished=told["finished"].append,
        on_said=told["said"].append,
    )
    assert answer == 42
    assert told == {"started": ["a step"], "finished": ["noise", "one", "two"], "said": ["a word"]}


@pytest.mark.parametrize("refusing", ["refuse", "refuse_from_a_thread"])
def test_worker_findings_are_raised_as_their_family(refusing: str, tmp_path: Path) -> None:
    assert error_of(CaptureError, run, f"answer(int, {refusing})", tmp_path).findings == (FINDING,)


@pytest.mark.parametrize(
    ("code", "status", "found"),
    [
        ("raise RuntimeError('boom')", 1, "RuntimeError: boom"),
        ("answer(str, work)", 1, "Expected `str`, got `int`"),
        ("sys.exit(0)", 0, "exit status 0"),
        ("os._exit(0)", 0, "exit status 0"),
        ("answer(int, lambda job, progress: 'text')", 0, "exit status 0"),
        (f"(FOLDER / {ANSWER!r}).write_bytes(b'*'); sys.exit(3)", 3, "exit status 3"),
        (f"(FOLDER / {FINDINGS!r}).write_text('[' * 10**6); sys.exit(3)", 3, "exit status 3"),
        (f"(FOLDER / {FINDINGS!r}).write_text('[{{}}]'); sys.exit(3)", 3, "exit status 3"),
        ("FINDING.code = 'E1'; answer(int, refuse)", 1, "immutable"),
        ("os.abort()", -6, "SIGABRT"),
        ("os.kill(os.getpid(), 9)", -9, "SIGKILL"),
    ],
)
def test_other_end_is_a_crash(code: str, status: int, found: str, tmp_path: Path) -> None:
    crashed = crash(code, tmp_path)
    assert (crashed.status, crashed.late) == (status, False)
    assert found in crashed.describe(15)


def test_findings_without_a_code_of_ours_are_a_crash(tmp_path: Path) -> None:
    unknown = FINDING.to_json() | {"code": "AOTC-E000"}
    text = json.dumps([unknown])
    code = f"(FOLDER / {FINDINGS!r}).write_text({text!r}); sys.exit(3)"
    assert crash(code, tmp_path).status == 3


def test_an_answer_that_is_none_says_why(tmp_path: Path) -> None:
    assert (
        "Expected `int`, got `str`"
        in crash("answer(int, lambda job, progress: 'text')", tmp_path).misread
    )
    assert crash("pass", tmp_path).misread


def test_a_crash_names_what_was_being_done(tmp_path: Path) -> None:
    code = "answer(int, lambda job, progress: [progress.started('a step'), os.abort()])"
    assert crash(code, tmp_path).doing == "a step"


TELLING = """
def tell(job, progress):
    for number in range(6):
        progress.started(str(number))
        time.sleep(0.3)
    {then}
    return job
answer(int, tell)
"""


def test_silent_worker_is_ended_however_long_it_takes_in_all(tmp_path: Path) -> None:
    assert run(TELLING.format(then=""), tmp_path, silent_seconds=1.5) == 41
    crashed = crash(TELLING.format(then="time.sleep(60)"), tmp_path, silent_seconds=1.5)
    assert (crashed.doing, crashed.late) == ("5", True)


def test_nothing_is_left_of_a_job(tmp_path: Path) -> None:
    run("answer(int, work)", tmp_path)
    crash("os.abort()", tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_interrupt_ends_the_worker(tmp_path: Path) -> None:
    started: list[int] = []

    def interrupted(line: str) -> None:
        started.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            "print('<', os.getpid(), flush=True); time.sleep(60)", tmp_path, on_finished=interrupted
        )
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_threads_that_a_worker_leaves_running_hold_up_nobody(tmp_path: Path) -> None:
    started = time.monotonic()
    assert run("answer(int, linger)", tmp_path) == 41
    assert time.monotonic() - started < 50, "the thread sleeps for a minute"


def test_a_line_in_no_encoding_is_no_failure(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "sys.stdout.buffer.write(b'< \\xff\\n'); answer(int, work)"
    assert run(code, tmp_path, on_finished=lines.append) == 42
    assert lines[0] == "\ufffd"


FULL_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
answer(int, {work})
"""


@pytest.mark.parametrize("work", ["work", "refuse"])
def test_worker_without_room_is_understood(work: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        run(FULL_DISK.format(work=work), tmp_path)


def test_an_error_of_the_system_that_is_no_full_disk_is_a_crash(tmp_path: Path) -> None:
    code = "def f(job, progress):\n    raise PermissionError(13, 'not this one')\nanswer(int, f)"
    assert "not this one" in crash(code, tmp_path).describe(1)


def test_own_modules_are_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aotc").mkdir()
    (tmp_path / "aotc" / "__init__.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    made = worker_parent.run(
        worker_parent.module("aotc.compile.mlir.module_texts"),
        [],
        list[str],
        within=tmp_path,
        environment=os.environ,
        processes=Processes(),
    )
    assert made == []


@pytest.mark.parametrize(
    ("status", "said", "limit", "is_told"),
    [
        (-6, [], 600 * 2**20, True),
        (1, ["MemoryError"], 600 * 2**20, True),
        (1, ["ImportError: libjax_common.so: failed to map segment"], 600 * 2**20, True),
        (1, ["ValueError: no data today"], 600 * 2**20, False),
        (-6, [], resource.RLIM_INFINITY, False),
    ],
)
def test_crash_under_a_limit_of_address_space_names_the_limit(
    monkeypatch: pytest.MonkeyPatch, status: int, said: list[str], limit: int, is_told: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    crashed = worker_parent.CrashedError(status, "", said, late=False, misread="")
    hint = crashed.refusal("AOTC-E835", "here", 9).findings[0].hint
    assert ("ulimit -v unlimited" in hint) == is_told
    assert is_told == (crashed.hint() is not None)
