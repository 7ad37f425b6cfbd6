"""Tests of a program's reads in provenance: opened files, and names of variables."""

import json
import os
import py_compile
import sys
from pathlib import Path

import pytest

from tests.running import python

RUN = """
import json, sys
from pathlib import Path
from aotc.capture import source_imports
from aotc.capture.program_reads import Recorder
source_imports.install()
recorder = Recorder(Path("scratch").resolve())
import program
print(json.dumps([recorder.files(), recorder.variables()]))
"""


def read(
    root: Path, code: str, *beside: Path, **variables: str
) -> tuple[set[str], dict[str, bool]]:
    """The names of files in a folder that a program read, and the variables."""
    (root / "program.py").write_text(code)
    (root / "scratch").mkdir(exist_ok=True)
    path = os.pathsep.join([str(root), *map(str, beside), *filter(None, sys.path)])
    done = python("-P", "-c", RUN, folder=root, **variables, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    files, asked = json.loads(done.stdout.splitlines()[-1])
    return {str(Path(f).relative_to(root)) for f in files if Path(f).is_relative_to(root)}, asked


def test_files_count_that_are_opened_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("data/a", "data/b", "data/c", "data/d"):
        (tmp_path / name).write_text("x")
    (tmp_path / "data" / "link").symlink_to("c")
    (tmp_path / "scratch").mkdir()
    code = """
import os, pathlib, threading
open('data/a').read()
open(b'data/../data/b').close()
pathlib.Path('data/link').read_text()
os.close(os.open('data/d', os.O_RDONLY))
open('written', 'w').close()
open('made', 'w').write('x'); open('made').read()
open('scratch/x', 'w').close(); open('scratch/x').close()
thread = threading.Thread(target=lambda: open('threaded', 'a+').close())
thread.start()
thread.join()
os.path.exists('asked')
try: open('missing')
except OSError: pass
"""
    files, _ = read(tmp_path, code)
    assert files == {
        *("program.py", "data/a", "data/b", "data/link", "data/d"),
        *("made", "threaded", "missing"),
    }


READS_VARIABLES = """
import tempfile
import os
import jax
import reads_one
os.environ.get("MINE")
os.environ.get("JAX_ENABLE_X64")
os.path.expanduser("~")
"""


def test_own_variables_skipped(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "one-1.dist-info").mkdir()
    (site / "reads_one.py").write_text("import os\nos.getenv('ONE_OF_A_LIBRARY')\n")
    _, asked = read(tmp_path, READS_VARIABLES, site, MINE="1", HOME="/root", UNRELATED="1")
    assert asked == {"HOME": True, "JAX_ENABLE_X64": False, "MINE": True, "ONE_OF_A_LIBRARY": False}


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("import os; os.environb.get(b'ASKED')", "ASKED"),
        ("import os; 'ASKED' in os.environ", "ASKED"),
        ("import posix; posix.environ.get(b'ASKED')", "ASKED"),
        ("import posix; posix.environ.copy()", "*"),
        ("import os; os.environ._data.get(b'ASKED')", "ASKED"),
        ("import os; dict(os.environ)", "*"),
        ("import os; repr(os.environ)", "*"),
        ("import os; os.environ['ASKED'] = '1'; os.environ.pop('ASKED')", "ASKED"),
    ],
)
def test_variables_count_however_they_are_read(code: str, asked: str, tmp_path: Path) -> None:
    assert read(tmp_path, code)[1] == {asked: asked == "*"}


def test_old_bytecode_of_the_same_time_and_size_is_not_taken(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    for value in "ab":
        helper.write_text(f"value = {value!r}\n")
        os.utime(helper, (1, 1))
        if value == "a":
            py_compile.compile(str(helper))
    code = "import helper\ntry: open(f'{helper.value}.txt')\nexcept OSError: pass"
    assert read(tmp_path, code)[0] == {"program.py", "helper.py", "b.txt"}
