"""Child processes: their refusals are raised, and any end but a proper one is a crash."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from aotc.errors import CaptureError
from aotc.pipeline.children import child
from aotc.processes import Processes
from aotc_runtime.errors import AotcError, Finding

FINDING = Finding(code="AOTC-E822", where="f", expected="a", found="b", hint="c")

SCRIPTS = {
    "fine": "print('noise'); print('< one'); print('< two'); sys.exit(child.finish(folder))",
    "refuses": "sys.exit(child.report(folder, CaptureError(FINDING)))",
    "raises": "raise RuntimeError('boom')",
    "exits": "sys.exit(0)",
    "leaves": "os._exit(0)",
    "aborts": "os.abort()",
    "dies late": "child.finish(folder); sys.exit(3)",
    "killed": "os.kill(os.getpid(), 9)",
    "lingers": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,)).start()\n"
    "child.end(child.finish(folder))",
    "writes bytes": "sys.stdout.buffer.write(b'< \\xff\\n'); sys.exit(child.finish(folder))",
}


def run(kind: str, folder: Path, environment: dict[str, str] | None = None) -> list[str]:
    """Run a module of this kind as a child; the lines it printed."""
    (folder / "a_child.py").write_text(
        "import os, sys\nfrom pathlib import Path\nfrom aotc.pipeline.children import child\n"
        "from aotc.errors import CaptureError\nfrom aotc_runtime.errors import Finding\n"
        f"FINDING = {FINDING!r}\nfolder = Path(sys.argv[1])\n{SCRIPTS[kind]}\n"
    )
    lines: list[str] = []
    child.run(
        "a_child",
        [str(folder)],
        folder,
        (environment or dict(os.environ)) | {"PYTHONPATH": str(folder)},
        failure_code="AOTC-E835",
        doing="the capture process",
        on_line=lines.append,
        processes=Processes(),
    )
    return lines


def test_lines_are_passed_on_and_a_proper_end_returns(tmp_path: Path) -> None:
    assert run("fine", tmp_path) == ["one", "two"]


def test_the_findings_of_the_child_are_raised_as_its_own_family(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        run("refuses", tmp_path)
    assert caught.value.findings == (FINDING,)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("raises", "RuntimeError: boom"),
        ("exits", "exit status 0"),
        ("leaves", "exit status 0"),
        ("dies late", "exit status 3"),
        ("aborts", "SIGABRT"),
        ("killed", "SIGKILL"),
    ],
)
def test_any_other_end_is_a_crash_with_what_was_said_last(
    tmp_path: Path, kind: str, found: str
) -> None:
    with pytest.raises(AotcError) as caught:
        run(kind, tmp_path)
    assert caught.value.code == "AOTC-E835"
    assert found in caught.value.findings[0].found


FULL_DISK = """
import resource, signal, sys
from pathlib import Path

def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    Path(sys.argv[2], "result").write_bytes(b"x")
"""


def test_a_child_without_room_to_say_so_is_understood_although_there_is_room_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "a_worker.py").write_text(FULL_DISK)
    with pytest.raises(OSError, match="No space left on device"):
        child.run(
            "aotc.pipeline.children.recorded",
            ["a_worker", str(tmp_path / "m.toml"), str(tmp_path)],
            tmp_path,
            dict(os.environ) | {"PYTHONPATH": str(tmp_path)},
            failure_code="AOTC-E835",
            doing="the capture process",
            on_line=print,
            processes=Processes(),
        )


def test_lines_that_a_child_said_are_indented_only_for_people(tmp_path: Path) -> None:
    with pytest.raises(AotcError) as caught:
        run("raises", tmp_path)
    said = caught.value.findings[0].to_json()["found"].splitlines()[1:]
    assert len(said) > 1 and all(line.startswith("| ") for line in said)
    assert "\n            | RuntimeError: boom\n" in str(caught.value)


def test_what_an_earlier_child_finished_does_not_count_for_the_next(tmp_path: Path) -> None:
    run("fine", tmp_path)
    with pytest.raises(AotcError):
        run("leaves", tmp_path)


def test_an_interrupt_ends_the_child(tmp_path: Path) -> None:
    started: list[int] = []

    def interrupted(line: str) -> None:
        started.append(int(line))
        raise KeyboardInterrupt

    (tmp_path / "a_child.py").write_text(
        "import os, time\nprint('<', os.getpid(), flush=True)\ntime.sleep(60)\n"
    )
    with pytest.raises(KeyboardInterrupt):
        child.run(
            "a_child",
            [],
            tmp_path,
            dict(os.environ) | {"PYTHONPATH": str(tmp_path)},
            failure_code="AOTC-E835",
            doing="the capture process",
            on_line=interrupted,
            processes=Processes(),
        )
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_nothing_that_steers_jax_or_xla_reaches_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAX_ENABLE_X64", "XLA_FLAGS", "TF_CPP_MAX_VLOG_LEVEL", "PJRT_NPROC", "NPROC"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("UNRELATED", "kept")
    environment = child.clean_environment({"JAX_PLATFORMS": "cpu"})
    steering = {k: v for k, v in environment.items() if k.startswith(("JAX", "XLA", "PJRT", "NP"))}
    assert steering == {"JAX_PLATFORMS": "cpu"}
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["UNRELATED"] == "kept"
    assert child.ignored_variables() == ["JAX_ENABLE_X64", "PJRT_NPROC", "XLA_FLAGS"]


def test_threads_that_the_program_leaves_running_do_not_hold_up_the_build(tmp_path: Path) -> None:
    started = time.monotonic()
    run("lingers", tmp_path)
    assert time.monotonic() - started < 50, "the thread sleeps for a minute"


def test_a_line_in_no_encoding_is_no_failure(tmp_path: Path) -> None:
    assert run("writes bytes", tmp_path) == ["\ufffd"]


def test_files_where_a_build_is_started_hide_none_of_our_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aotc").mkdir()
    (tmp_path / "aotc" / "__init__.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError) as caught:
        child.run(
            "aotc.pipeline.children.capture_worker",
            [str(tmp_path / "none.toml"), str(tmp_path)],
            tmp_path,
            os.environ,
            failure_code="AOTC-E835",
            doing="the capture process",
            on_line=print,
            processes=Processes(),
        )
    assert "not this one" not in str(caught.value)
