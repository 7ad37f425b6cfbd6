"""Flags that XLA refuses are an error of ours, and no end of the process that loads a bundle."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.base.errors import BackendError
from aotc_runtime.engines.xla import xla_flags as flags
from tests.conftest import Bundle
from tests.refusals import error_of

from ..samples import refused

LOADING = """
import json, os, sys
import aotc_runtime
from aotc_runtime import AotcError
bundle, policy = sys.argv[1:]
said, started = [], []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
for _ in range(2):
    try:
        with aotc_runtime.load(bundle, trust=policy) as loaded:
            said.append(loaded.report()["xla_flags"])
    except AotcError as error:
        (finding,) = error.findings
        said.append([finding.code, finding.found])
        del os.environ["XLA_FLAGS"]
print(json.dumps({"said": said, "started": len(started)}))
"""


def loaded_twice(bundle: Bundle, flags: str | None) -> dict[str, Any]:
    """Return the output of a server that loads a bundle with these flags.

    It loads again without them if they were refused.
    """
    kept = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *map(str, bundle)],
        env=kept if flags is None else {**kept, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--xla_no_such=1", "Unknown flag in XLA_FLAGS: --xla_no_such=1"),
        (
            "--xla_cpu_enable_fast_math=maybe",
            "Couldn't interpret value maybe for flag xla_cpu_enable_fast_math.",
        ),
        ("no_such_file", 'Could not open file "no_such_file" to read flags'),
        ("FILE", "Unknown flag in XLA_FLAGS: --xla_of_a_file"),
        (" ", 'Could not open file " " to read flags'),
    ],
)
def test_refused_flags_told(digits_bundle: Bundle, tmp_path: Path, flags: str, words: str) -> None:
    if flags == "FILE":
        flags = str(tmp_path / "flags")
        Path(flags).write_text("--xla_of_a_file", encoding="utf-8")
    first, second = loaded_twice(digits_bundle, flags)["said"]
    assert (first[0], second) == ("AOTC-E750", None)
    assert first[1].startswith(words)


def test_flags_that_xla_takes_are_in_the_report(digits_bundle: Bundle) -> None:
    flags = "--xla_cpu_enable_fast_math=true"
    assert loaded_twice(digits_bundle, flags) == {"said": [flags, flags], "started": 1}


@pytest.mark.parametrize("flags", [None, ""])
def test_no_flags_start_no_process(digits_bundle: Bundle, flags: str | None) -> None:
    found = loaded_twice(digits_bundle, flags)
    assert found == {"said": [None, None], "started": 0}


REFUSING = "import sys; sys.stderr.write('F1121 23:00:15.7 20519 a.cc:234] ' + {})"
"""Python that says what XLA would say last."""


@pytest.fixture
def set_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Flags that nobody has asked about."""
    monkeypatch.setenv("XLA_FLAGS", f"--{tmp_path}")


@pytest.mark.usefixtures("set_flags")
def test_probe_finds_packages_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere", "", *sys.path])
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PYTHONHOME", sys.base_prefix)
    said = "repr([*sys.path[:2], *sys.warnoptions, __import__('os').environ['PYTHONHOME']])"
    caught = error_of(BackendError, flags.require, REFUSING.format(said), "0.0")
    assert caught.findings[0].found == repr(["/nowhere", "", sys.base_prefix])


@pytest.mark.usefixtures("set_flags")
@pytest.mark.parametrize(
    "reading",
    [
        "import os; os.abort()",
        "import no_such_module",
        "print('F1121')",
        "import time; time.sleep(9)",
    ],
)
def test_only_xla_words_are_a_refusal(monkeypatch: pytest.MonkeyPatch, reading: str) -> None:
    monkeypatch.setattr(flags, "SECONDS", 1.0)
    flags.require(reading, "0.0")


@pytest.mark.usefixtures("set_flags")
@pytest.mark.parametrize("kind", ["embedded", "frozen", "missing"])
def test_odd_program_runs_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    program = tmp_path / ("python-app" if kind == "frozen" else "server")
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", None if kind == "missing" else str(program))
    if kind == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    flags.require(REFUSING.format("'no'"), "0.0")
    assert not (tmp_path / "started").exists()


@pytest.mark.usefixtures("set_flags")
def test_embedded_interpreter_asks_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/sbin/server")
    caught = error_of(BackendError, flags.require, REFUSING.format("'no'"), "0.0")
    assert (caught.code, caught.findings[0].found) == ("AOTC-E750", "no")


@pytest.mark.usefixtures("set_flags")
def test_a_python_asks_itself_wherever_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "exec_prefix", "/nowhere")
    with refused("AOTC-E750"):
        flags.require(REFUSING.format("'no'"), "0.0")
