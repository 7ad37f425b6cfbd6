"""Builds that may write no file beyond a size (setrlimit(2), `ulimit -f`): one error that says so,
wherever it is met, nothing half-written, and a cache from which the next build goes on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .mounted import run
from .tiny import MANIFEST, PROGRAM

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from aotc.cli.main import main
main()
"""

TEMPORARY = "the directory for temporary files"


@pytest.mark.parametrize(
    ("limit", "where"),
    [
        pytest.param(0, TEMPORARY, id="before it begins"),
        pytest.param(100_000, TEMPORARY, id="in the capture"),
        pytest.param(200_000, TEMPORARY, id="in plain JAX"),
        pytest.param(330_000, "tiny.aotb", id="in the bundle"),
    ],
)
def test_a_build_that_may_write_no_large_file_says_so_and_leaves_nothing(
    limit: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.py").write_text(PROGRAM)
    (tmp_path / "tiny.toml").write_text(MANIFEST)
    temporary, output = tmp_path / "temporary", tmp_path / "tiny.aotb"
    temporary.mkdir()
    cache = tmp_path / "cache"
    arguments = ["build", "tiny.toml", "-o", str(output), "--cache", str(cache)]

    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *arguments, "--json"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], done.returncode) == ("AOTC-E003", 2), finding
    assert finding["where"] == (where if where == TEMPORARY else str(output))
    assert done.stderr == b""
    assert list(temporary.iterdir()) == [] and not output.exists()
    assert not list(cache.rglob(".*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    code, document = run(arguments)
    assert code == 0, document
    assert not [note for note in document["notes"] if "cache" in note]
