"""Stopped by a signal: one line, the exit code of shells, no child process, no file left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aotc.cli.stop_signals import Stops
from aotc_runtime.loader import bundle_sources
from tests.conftest import Bundle, Run
from tests.running import python
from tests.small_manifests import one_function
from tests.waiting import SECONDS, said_at, started, until

AOTC = (sys.executable, "-m", "aotc.cli.main")

STOPS = [
    (signal.SIGINT, 130, "aborted\n"),
    (signal.SIGTERM, 143, "terminated\n"),
    (signal.SIGHUP, 129, "hung up\n"),
]
ENDED_SECONDS_MAX = 30
LOCAL_MODES = 3  # of what `termios.tcgetattr` returns


SLOW_TO_COMPILE = """
import jax
def f(x):
    for _ in range(400):
        x = jax.numpy.sort(x @ x) + jax.numpy.linalg.inv(x)
    return x
"""

MANIFEST = one_function("slow", "[8, 8]", "fixtures.seed = 0")


@pytest.fixture
def inspecting(aotc: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have `aotc inspect` do something else where it opens the bundle."""
    # Modules that are imported only afterwards would do it in later tests, too.
    aotc("inspect", "b")
    return lambda instead: monkeypatch.setattr(bundle_sources, "open_streamed", instead)


def test_ctrl_c_is_one_line_or_one_document(aotc: Run, inspecting: Callable[..., None]) -> None:
    def interrupted(path: object) -> None:
        raise KeyboardInterrupt

    inspecting(interrupted)
    done = aotc("inspect", "b")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "aborted\n")
    as_json = aotc("inspect", "b", "--json")
    assert (as_json.exit_code, as_json.stderr) == (130, "")
    document = as_json.document
    assert (document["ok"], document["exit_code"]) == (False, 130)
    (finding,) = document["findings"]
    assert (finding["code"], finding["where"]) == ("AOTC-E981", "aotc inspect")


def test_signals_are_handled_as_before_when_a_command_has_ended(aotc: Run) -> None:
    before = [signal.getsignal(number) for number, _, _ in STOPS]
    aotc("targets", "list")
    assert [signal.getsignal(number) for number, _, _ in STOPS] == before


def working_folders(inside: Path) -> list[Path]:
    """Of all processes; that of a removed folder ends in " (deleted)"."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cwd").readlink())
        except OSError:
            continue
    return [folder for folder in found if inside in folder.parents]


def hang_up_counts() -> None:
    """For children: `nohup make test` would have them ignore that, too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Start a build of a program, and wait until it is under way. It ends with the block."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "slow.toml").write_text(MANIFEST)

    @contextmanager
    def start(
        source: str,
        under_way: Callable[[], object],
        *options: str,
        terminal: dict[str, Any] | None = None,
    ) -> Iterator[subprocess.Popen[str]]:
        (tmp_path / "slow.py").write_text(source)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": hang_up_counts}
        with started(
            [*AOTC, "build", "slow.toml", *options], cwd=tmp_path, text=True, **(terminal or pipes)
        ) as process:
            until(under_way, "the build is under way", process)
            yield process

    return start


def test_stopped_build_ends_its_compilers(building: Callable[..., Any], tmp_path: Path) -> None:
    def compiling() -> list[Path]:
        return working_folders(tmp_path)

    with building(SLOW_TO_COMPILE, compiling, "--json") as process:
        process.terminate()
        stdout, stderr = process.communicate(timeout=SECONDS)
    document = json.loads(stdout)
    assert (process.returncode, stderr, document["exit_code"]) == (143, "", 143)
    assert document["findings"][0]["code"] == "AOTC-E982"
    assert list((tmp_path / "temporary").iterdir()) == []
    assert working_folders(tmp_path) == []


def test_ctrl_c_ends_build_keeps_terminal(building: Callable[..., Any], tmp_path: Path) -> None:
    ours, its = os.openpty()
    before = termios.tcgetattr(ours)
    before[LOCAL_MODES] |= termios.NOFLSH  # what was said when it is typed is read nevertheless
    termios.tcsetattr(ours, termios.TCSANOW, before)
    terminal = {"preexec_fn": partial(os.login_tty, its), "pass_fds": (its,)}
    with ThreadPoolExecutor() as readers:  # a full terminal would have the build wait
        reading = readers.submit(lambda: b"".join(said_at(ours)))
        with building(
            SLOW % "time.sleep(60)", (tmp_path / "left").exists, terminal=terminal
        ) as process:
            os.close(its)
            os.write(ours, b"\x03")
            said = reading.result().decode()
    assert process.returncode == 130
    assert "capture" in said and said.endswith("aborted\r\n") and "Traceback" not in said
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")  # the cursor, hidden and shown
    assert termios.tcgetattr(ours) == before
    os.close(ours)
    wait_for_the_end(*ids_of(tmp_path))
    assert list((tmp_path / "temporary").iterdir()) == []


def wait_for_the_end(process: int) -> None:
    def has_ended() -> bool:
        try:
            status = Path(f"/proc/{process}/stat").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return True
        return status.rpartition(")")[2].split()[0] == "Z"  # nobody has asked how it ended

    until(has_ended, f"process {process} ends")


LEAVING = """
import multiprocessing, os, pathlib, subprocess, sys, time
def wait():
    time.sleep(600)
forked = multiprocessing.get_context("fork").Process(target=wait)
forked.start()
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("writing").write_text(f"{os.getpid()} {forked.pid} {started.pid}")
pathlib.Path("writing").rename("left")
def f(x):
    %s
    return x + 1
"""
"""A program that starts processes of its own, and ends none. It leaves its own id and theirs."""


SLOW = """
import os, pathlib, time
pathlib.Path("writing").write_text(str(os.getpid()))
pathlib.Path("writing").rename("left")
def f(x):
    %s
    return x + 1
"""


def ids_of(folder: Path) -> list[int]:
    return [int(process) for process in (folder / "left").read_text("utf-8").split()]


@pytest.mark.parametrize(("number", "exit_code", "line"), STOPS[1:])
def test_a_stopped_build_ends_the_capture_and_what_that_has_started_and_removes_its_folder(
    building: Callable[..., Any], tmp_path: Path, number: int, exit_code: int, line: str
) -> None:
    with building(LEAVING % "time.sleep(600)", (tmp_path / "left").exists) as process:
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert stdout == "" and re.fullmatch(rf"(capture: 0 of 1(, \d+ s)?\n)+{line}", stderr)
    assert process.returncode == exit_code
    assert list((tmp_path / "temporary").iterdir()) == []
    capture, *left = ids_of(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(capture, 0)
    for each in left:
        wait_for_the_end(each)


def test_killed_build_ends_its_capture(building: Callable[..., Any], tmp_path: Path) -> None:
    with building(SLOW % "time.sleep(600)", (tmp_path / "left").exists) as process:
        process.kill()
    wait_for_the_end(*ids_of(tmp_path))


@pytest.mark.parametrize(
    ("doing", "exit_code"),
    [("pass", 0), ("raise ValueError", 3), ("os._exit(0)", 3), ("os.kill(os.getpid(), 9)", 3)],
)
@pytest.mark.limit(300)  # half as long as what it starts waits
def test_daemon_does_not_delay_stop(aotc: Run, tmp_path: Path, doing: str, exit_code: int) -> None:
    (tmp_path / "slow.toml").write_text(MANIFEST)
    (tmp_path / "slow.py").write_text(LEAVING % doing)
    assert aotc("build", "slow.toml", "--cache", "off").exit_code == exit_code
    for each in ids_of(tmp_path):
        wait_for_the_end(each)


IMPORTING = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from aotc.cli.main import main
sys.argv[1:] = [*sys.argv[2:]]
main()
"""


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(
    "module", ["click", "msgspec", "numpy", "aotc.cli.run_command", "jaxlib.xla_client"]
)
def test_ctrl_c_in_import_is_quiet(digits_bundle: Bundle, module: str, options: list[str]) -> None:
    """Half imported modules cannot be imported again, and C++ code ends the process."""
    run = ["run", str(digits_bundle[0]), "predict", "--trust", str(digits_bundle[1]), *options]
    run += ["--input", "image=1x64xf32"]
    done = python("-c", IMPORTING.replace("sys.argv[1]", repr(module), 1), "-", *run)
    assert done.returncode == 130
    if options:
        assert json.loads(done.stdout)["findings"][0]["code"] == "AOTC-E981"
    else:
        assert (done.stdout, done.stderr) == ("", "aborted\n")


DESCRIBING = """
import os, signal, sys, typing
def told(frame, event, argument):
    if frame.f_code.co_name == "__hash__" and frame.f_back.f_code.co_name == "decoder":
        if event == "call" and frame.f_code.co_filename == typing.__file__:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)
from aotc.cli.main import main
sys.setprofile(told)
main()
"""


def test_ctrl_c_inside_msgspec_is_not_dropped(digits_bundle: Bundle) -> None:
    """It asks types for their hashes, and goes on whatever they raise."""
    done = python("-c", DESCRIBING, "verify", digits_bundle[0], "--trust", digits_bundle[1])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "aborted\n")


def test_ctrl_c_after_document_adds_none(aotc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write = sys.stdout.write

    def interrupted(text: str) -> int:
        count = write(text)
        os.kill(os.getpid(), signal.SIGINT)
        return count

    monkeypatch.setattr("sys.stdout.write", interrupted)
    done = aotc("targets", "list", "--json")
    assert (done.exit_code, done.document["ok"]) == (0, True)


def test_ignored_signal_stays_ignored(aotc: Run, inspecting: Callable[..., None]) -> None:
    inspecting(lambda path: os.kill(os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert "internal error" in aotc("inspect", "b").stderr, "the command went on"
    finally:
        signal.signal(signal.SIGINT, before)


class Dropping:
    """Python drops what is raised while an object goes away, as in what a collection calls."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)
        self.gone = True


def test_a_stop_that_python_drops_is_raised_again() -> None:
    stops = Stops()
    stops.note()
    hook = sys.unraisablehook
    try:
        stops.raise_now()
        with pytest.raises(KeyboardInterrupt) as caught:
            Dropping()
            time.sleep(ENDED_SECONDS_MAX)
        assert caught.value.args == (signal.SIGTERM,)
    finally:
        stops.restore()
    assert sys.unraisablehook is hook


def test_other_dropped_errors_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Failing:
        def __del__(self) -> None:
            raise ValueError

    stops = Stops()
    stops.note()
    try:
        stops.raise_now()
        Failing()
    finally:
        stops.restore()
    assert len(told) == 1
