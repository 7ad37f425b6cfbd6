"""Output of a program while it is built, its failures, and what it did when it crashed."""

from pathlib import Path

import pytest

from aotc.pipeline.build import build
from aotc.pipeline.build_options import BuildOptions
from aotc_runtime.base.errors import AotcError, Finding
from tests.small_manifests import one_function

MANIFEST = one_function("program", "[4]", weights='init = "program:init"')

PROGRAM = """\
import ctypes, os, sys
import jax.numpy as jnp

def init():
    {init}
    return {{"a": jnp.ones(4)}}

def f(params, x):
    {body}
    return x + params["a"]
"""


def refused(folder: Path, *, init: str = "", body: str = "") -> tuple[Finding, str]:
    """The finding, and what the capture process printed."""
    (folder / "program.py").write_text(PROGRAM.format(init=init or "pass", body=body or "pass"))
    (folder / "program.toml").write_text(MANIFEST)
    printed: list[tuple[str, str]] = []
    with pytest.raises(AotcError) as caught:
        build(
            folder / "program.toml",
            folder / "program.aotb",
            BuildOptions(on_output=lambda process, text: printed.append((process, text))),
        )
    assert [process for process, _ in printed] in ([], ["capture"])
    (finding,) = caught.value.findings
    return finding, "".join(text for _, text in printed)


def test_program_traceback_has_own_frames_and_output(tmp_path: Path) -> None:
    body = "print('a word'); print('another', file=sys.stderr); jnp.dot(x, jnp.ones(3))"
    finding, printed = refused(tmp_path, body=body)
    assert finding.code == "AOTC-E829"
    assert finding.expected.endswith("params: 1 tensor, x float32[4]")
    assert printed.startswith("a word\nanother\nTraceback")
    frames = [line for line in printed.splitlines() if line.startswith("  File ")]
    assert frames == [f'  File "{tmp_path / "program.py"}", line 9, in f']


@pytest.mark.parametrize(
    ("init", "body", "found", "hint"),
    [
        ("", "os._exit(3)", "exit status 3 while tracing f (program:f)", "os._exit"),
        ("os._exit(3)", "", "exit status 3 while making weights params (program:init)", "os._exit"),
        ("", "os.kill(os.getpid(), 9)", "killed by SIGKILL while tracing f (program:f)", "memory"),
    ],
)
def test_silent_end_is_told(tmp_path: Path, init: str, body: str, found: str, hint: str) -> None:
    finding, _ = refused(tmp_path, init=init, body=body)
    assert (finding.code, finding.found) == ("AOTC-E835", found)
    assert hint in finding.hint


def test_crash_names_the_line_of_the_program_and_no_frame_of_ours(tmp_path: Path) -> None:
    finding, _ = refused(tmp_path, body="print('a word'); os.abort()")
    assert "killed by SIGABRT while tracing f (program:f)\n| a word\n" in finding.found
    assert f'File "{tmp_path / "program.py"}", line 9 in f' in finding.found
    assert "aotc" not in finding.found.replace(str(tmp_path), "")
    assert "lines above" in finding.hint


def test_what_a_program_prints_is_no_progress(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(init="pass", body="print('f')"))
    (tmp_path / "program.toml").write_text(MANIFEST)
    done: list[tuple[str, int, int]] = []
    printed: list[tuple[str, str]] = []
    build(
        tmp_path / "program.toml",
        tmp_path / "program.aotb",
        BuildOptions(
            on_stage=lambda *stage: done.append(stage), on_output=lambda *text: printed.append(text)
        ),
    )
    assert [stage for stage in done if stage[0] == "capture"] == [
        ("capture", 0, 1),
        ("capture", 1, 1),
    ]
    assert sorted(printed) == [("capture", "f"), ("reference", "f")]
