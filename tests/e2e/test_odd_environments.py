"""Whatever an environment makes Python print or do, a build ends as ever, with the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.base.workers.worker_environment import inherit
from aotc.pipeline.build import build
from tests.small_manifests import one_function

PROGRAM = "def f(x):\n    return x * 2\n"
MANIFEST = one_function("odd", "[4]", "fixtures.seed = 0")

TALKATIVE = {
    "PYTHONINSPECT": "1",
    "PYTHONSTARTUP": "startup.py",
    "PYTHONVERBOSE": "1",
    "PYTHONPROFILEIMPORTTIME": "1",
    "PYTHONMALLOCSTATS": "1",
}

ODD = {
    "PYTHONIOENCODING": "utf-16",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONWARNINGS": "error",
    "PYTHONOPTIMIZE": "2",
    "PYTHONHASHSEED": "7",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONNODEBUGRANGES": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONMALLOC": "debug",
    "LC_ALL": "C",
    "TZ": "Pacific/Apia",
    "COLUMNS": "0",
    "TERM": "nonsense",
    "HOME": "/nonexistent",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, and with a module that every Python prints something by."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.py").write_text(PROGRAM)
    (folder / "odd.toml").write_text(MANIFEST)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text("print('hello')\nprint('no end', end='')\n")
    return folder


def root_digest(folder: Path, **variables: str) -> str:
    """Of a build in such an environment, with an exit code of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "aotc.cli.main", "build", "odd.toml", "--json"),
            *("--cache", "off", "-o", str(folder / "odd.aotb")),
        ],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout[done.stdout.index(b"{") :])["root_digest"]


@pytest.fixture(scope="module")
def usual(program: Path) -> str:
    """The root digest of a build in an ordinary environment."""
    return build(program / "odd.toml", output=program / "usual.aotb").bundle.root_digest


def test_environment_variables_change_no_byte(program: Path, usual: str) -> None:
    assert root_digest(program, **ODD) == usual


def test_output_at_interpreter_start_is_no_answer(program: Path, usual: str) -> None:
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, [str(program / "site"), before]))
    assert root_digest(program, **TALKATIVE, PYTHONPATH=path) == usual


def test_children_are_not_told_what_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (TALKATIVE | ODD).items():
        monkeypatch.setenv(name, value)
    kept = inherit(without=("PYTHONHASH",))
    assert not kept.keys() & TALKATIVE.keys()
    assert ODD.keys() - kept.keys() == {"PYTHONHASHSEED", "PYTHONIOENCODING"}


COUNTING = "import os\n{}\nimport jax\ndef f(x):\n    return x * jax.device_count()\n"
FLAGS = "--xla_no_such_flag --xla_force_host_platform_device_count=4"


def test_flags_of_xla_that_a_program_sets_change_nothing_and_are_noted(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(MANIFEST, encoding="utf-8")
    roots, noted = [], []
    for setting in ("", f"os.environ['XLA_FLAGS'] = {FLAGS!r}"):
        (tmp_path / "odd.py").write_text(COUNTING.format(setting), encoding="utf-8")
        built = build(tmp_path / "odd.toml", output=tmp_path / "odd.aotb")
        roots.append(built.bundle.root_digest)
        noted.append([note for note in built.notes if "XLA_FLAGS" in note])
    assert roots[0] == roots[1]
    assert noted[0] == [] and len(noted[1]) == 1 and FLAGS in noted[1][0]


def refused(folder: Path, command: str, *arguments: str | Path) -> dict[str, str]:
    """The finding of a build that the shell starts after a command. arguments: of the build."""
    words = [sys.executable, "-m", "aotc.cli.main", "build", *arguments]
    words += ["--json", "-o", folder / "x.aotb", "--cache", "off"]
    done = subprocess.run(
        ["bash", "-c", f'{command} && exec "$@"', "-", *words],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        },
    )
    assert done.returncode == 2, done.stderr
    assert not (folder / "x.aotb").exists()
    (found,) = json.loads(done.stdout)["findings"]
    return dict(found)


def test_too_few_open_files_are_no_bug(program: Path, tmp_path: Path) -> None:
    found = refused(tmp_path, "ulimit -n 20", program / "odd.toml")
    assert found["code"] == "AOTC-E032" and "ulimit -n" in found["hint"]


def test_a_current_folder_that_is_gone_is_no_bug(program: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    found = refused(tmp_path, f"cd {gone} && rmdir {gone}", program / "odd.toml")
    assert (found["code"], found["where"]) == ("AOTC-E032", "current directory")


def test_a_name_that_is_not_utf_8_is_no_bug(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"b\xff")
    folder.mkdir()
    (folder / "odd.py").write_text(PROGRAM)
    (folder / "odd.toml").write_text(MANIFEST)
    found = refused(tmp_path, "true", folder / "odd.toml")
    assert found["code"] == "AOTC-E032" and "udcff" in json.dumps(found)
