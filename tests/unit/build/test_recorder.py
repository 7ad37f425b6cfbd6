"""What a program read is seen, and what cannot be seen or repeated is not kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.build.reads import ABSENT, Looking, Reads
from aotc.build.recording import Recording


def record(root: Path, code: str, **environment: str) -> Recording:
    """Run code as a program of this folder."""
    body = "".join(f"    {line}\n" for line in code.splitlines())
    (root / "program.py").write_text(f"def main():\n{body}    return 0\n")
    (root / "own").mkdir(exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "aotc.build.recorded", "program"),
            *(str(root / "program.toml"), str(root / "own")),
        ],
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    return Recording.read(root / "own", "program")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time; time.time()", "the clock: time"),
        ("from time import time as t; t()", "the clock: time"),
        ("import datetime; datetime.datetime.now()", "the clock: now"),
        ("import datetime; datetime.date.today()", "the clock: today"),
        ("import os; os.stat('.').st_mtime", "the clock: stat"),
        ("import random; random.random()", "chance: random"),
        ("import random; random.Random()", "chance: Random"),
        ("import numpy; numpy.random.normal()", "chance: normal"),
        ("import numpy; numpy.random.default_rng()", "chance: default_rng"),
        ("import os; os.urandom(1)", "chance: urandom"),
        ("import uuid; uuid.uuid4()", "chance: uuid4"),
        ("open('/dev/urandom', 'rb').read(1)", "it read /dev/urandom"),
        ("open('/proc/self/stat').read()", "it read /proc/"),
        ("import os; os.getcwd()", "the system: getcwd"),
        ("import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: pass",
         "network"),
        ("import subprocess; subprocess.run(['true'])", "started a process"),
        ("import os; os.system('true')", "started a process"),
        ("import ctypes; ctypes.CDLL('libc.so.6')", "native code"),
        ("import sqlite3; sqlite3.connect(':memory:')", "database"),
        ("import safetensors", "safetensors, whose native code"),
        ("x = open('program.py', 'a'); x.write('#'); x.close()", "program.py was changed"),
    ],
)  # fmt: skip
def test_a_program_is_not_kept_that_asks(code: str, reason: str, tmp_path: Path) -> None:
    (refusal,) = record(tmp_path, code).reads.refusals
    assert reason in refusal


@pytest.mark.parametrize(
    "code",
    [
        "import random; random.seed(0); random.random()",
        "import random; random.Random(3).random()",
        "import numpy; numpy.random.seed(0); numpy.random.normal()",
        "import numpy; numpy.random.default_rng(3).normal()",
        "import time; time.sleep(0)",
        "import datetime; datetime.date(2026, 1, 1)",
        "import tempfile, logging, numpy, msgspec",
        "open('new', 'w').write('x'); open('new').read()",
        "open('/dev/null').read()",
    ],
)
def test_a_program_is_kept_that_does_the_same_each_time(code: str, tmp_path: Path) -> None:
    assert record(tmp_path, code).reads.refusals == ()


def test_files_are_seen_whoever_opens_them_and_also_if_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.npy").write_bytes(b"")
    outside = tmp_path.parent / f"{tmp_path.name}.txt"
    outside.write_text("o")
    code = (
        "import numpy, os, pathlib\n"
        "pathlib.Path('a.txt').read_text()\n"
        "try: numpy.load('b.npy')\nexcept EOFError: pass\n"
        "try: open('missing.json')\nexcept OSError: pass\n"
        f"os.close(os.open({str(outside)!r}, os.O_RDONLY))"
    )
    found = record(tmp_path, code)
    files = {"a.txt", "b.npy", "missing.json", "program.py", str(outside)}
    assert set(found.reads.files) == files
    assert found.parts["file missing.json"] == ABSENT
    assert "numpy" in found.reads.packages and found.reads.refusals == ()


def test_what_is_looked_for_listed_and_imported_is_seen(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("")
    code = (
        "import os, pathlib, helper\n"
        "os.path.exists('maybe')\n"
        "pathlib.Path('data').is_dir()\n"
        "os.listdir('.')\n"
        "try: import nowhere\nexcept ImportError: pass"
    )
    reads = record(tmp_path, code).reads
    assert reads.looked == ("data", "maybe")
    assert reads.folders == (".",)
    assert "." in reads.searched and {"helper", "nowhere"} <= set(reads.modules)
    assert "nowhere" in reads.absent
    assert {"helper.py", "program.py"} <= set(reads.files)


def test_variables_are_seen_by_name_and_without_their_values(tmp_path: Path) -> None:
    code = "import os; os.environ.get('SECRET'); os.getenv('UNSET'); 'ASKED' in os.environ"
    found = record(tmp_path, code, SECRET="hunter2")
    assert {"SECRET", "UNSET", "ASKED"} <= set(found.reads.environment)
    assert found.parts["environment UNSET"] == ABSENT
    assert "hunter2" not in str(found.parts)
    assert "*" in record(tmp_path, "import os; dict(os.environ)").reads.environment


def parts(root: Path, reads: Reads, **environment: str) -> dict[str, str]:
    return dict(Looking(root, environment).parts(reads))


@pytest.mark.parametrize(
    ("reads", "change"),
    [
        (Reads(files=("f",)), lambda root: (root / "f").write_text("new")),
        (Reads(files=("absent",)), lambda root: (root / "absent").write_text("")),
        (Reads(looked=("absent",)), lambda root: (root / "absent").mkdir()),
        (Reads(folders=(".",)), lambda root: (root / "other").write_text("")),
        (
            Reads(searched=(".",), modules=("numpy",)),
            lambda root: (root / "numpy.py").write_text(""),
        ),
    ],
)
def test_looking_again_notices(tmp_path: Path, reads: Reads, change: object) -> None:
    (tmp_path / "f").write_text("old")
    before = parts(tmp_path, reads)
    assert parts(tmp_path, reads) == before
    change(tmp_path)  # type: ignore[operator]
    assert parts(tmp_path, reads) != before


def test_a_file_that_no_import_asked_for_changes_nothing(tmp_path: Path) -> None:
    reads = Reads(searched=(".",), modules=("numpy",))
    before = parts(tmp_path, reads)
    (tmp_path / "digits-1.0.0.aotb").write_bytes(b"")
    assert parts(tmp_path, reads) == before


def test_another_value_of_a_variable_is_noticed(tmp_path: Path) -> None:
    named, every = Reads(environment=("A",)), Reads(environment=("*",))
    assert parts(tmp_path, named, A="1") != parts(tmp_path, named, A="2")
    assert parts(tmp_path, named, A="1", B="1") == parts(tmp_path, named, A="1", B="2")
    assert parts(tmp_path, every, A="1", B="1") != parts(tmp_path, every, A="1", B="2")


def test_a_relative_path_is_one_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = record(tmp_path, "import os; os.path.exists('maybe')").reads
    assert reads.current_folder
    assert record(tmp_path, "open('program.py').close()").reads.current_folder
    absolute = f"open({str(tmp_path / 'program.py')!r}).close(); import helper"
    (tmp_path / "helper.py").write_text("")
    assert not record(tmp_path, absolute).reads.current_folder
    before = parts(tmp_path, reads)
    monkeypatch.chdir(tmp_path)
    assert parts(tmp_path, reads) != before


def test_variables_asked_for_as_bytes_are_seen(tmp_path: Path) -> None:
    assert "ASKED" in record(tmp_path, "import os; os.environb.get(b'ASKED')").reads.environment
