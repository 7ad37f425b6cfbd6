"""Two writers of one place at once, and a build that is killed: everybody ends well."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.conftest import Bundle
from tests.small_manifests import one_function
from tests.waiting import SECONDS, started, until

from .operations import operations, whole

WRITER = """
import sys
from pathlib import Path
from tests.faults.operations import operations
operation = operations(Path(sys.argv[1]))[sys.argv[2]]
for _ in range(25):
    operation.run(Path(sys.argv[3]))
"""

SIGNER = """
import sys
from pathlib import Path
from aotc.bundle.sign.bundle_signing import endorse
from aotc.bundle.sign.signer import LocalSigner
for _ in range(6):
    endorse(Path(sys.argv[1]), LocalSigner.ephemeral())
"""


def at_once(code: str, *arguments: str | Path) -> None:
    """Run the code in three processes."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with ExitStack() as stack:
        pipe: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True}
        for process in [stack.enter_context(started(command, **pipe)) for _ in range(3)]:
            _, said = process.communicate(timeout=2 * SECONDS)
            assert not said and process.returncode == 0, said


@pytest.mark.parametrize("name", ["build a new file", "build a new folder"])
def test_parallel_builds_end_well(name: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    at_once(WRITER, digits_bundle[0], name, tmp_path)
    assert whole(operations(digits_bundle[0])[name], tmp_path) == "new"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["sign a file", "sign a folder"])
def test_parallel_signatures_are_kept(name: str, digits_bundle: Bundle, tmp_path: Path) -> None:
    operations(digits_bundle[0])[name].prepare(tmp_path)
    (path,) = tmp_path.iterdir()
    at_once(SIGNER, path)
    assert len(read_unverified(open_bundle(path))[1]) == 18
    assert list(tmp_path.iterdir()) == [path]


PROGRAM = """
import os, pathlib, time
pathlib.Path("writing").write_text(str(os.getpid()))
pathlib.Path("writing").rename("traced")
def f(x):
    if not pathlib.Path("go").exists():
        time.sleep(60)
    return x + 1
"""

MANIFEST = one_function("tiny", "[8]", "fixtures.seed = 0")


def test_killed_build_leaves_nothing_that_next_does_not_remove(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "tiny.py").write_text(PROGRAM)
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    command = [sys.executable, "-m", "aotc.cli.main", "build", "tiny.toml", "-o", "tiny.aotb"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with started(command, cwd=tmp_path, env=environment) as build:
        until((tmp_path / "traced").exists, "the build traces", build)
        build.kill()
    with suppress(ProcessLookupError):  # it may have ended with the one who asked
        os.kill(int((tmp_path / "traced").read_text()), signal.SIGKILL)
    assert not (tmp_path / "tiny.aotb").exists()
    assert [path.name[:11] for path in temporary.iterdir()] == ["aotc-build-"]
    (tmp_path / "go").touch()
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tiny.aotb").exists() and not list(temporary.iterdir())
