"""What a program read is seen, and what cannot be seen or repeated is not kept."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from aotc.base.child_processes import Processes
from aotc.base.workers import worker_parent
from aotc.base.workers.forked_workers import kept
from aotc.pipeline.children.recorded_worker import Job
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.watching.import_places import path_at, place
from aotc.pipeline.watching.recorded_reads import ABSENT, Looking, Reads, native_parts
from aotc.pipeline.watching.recording_file import Recording

FORKING = kept("recorded_alone")


def record(
    root: Path, code: str, *, beside: str = "", forked: bool = True, **environment: str
) -> Recording:
    """Run code as a program of this folder. beside: another folder on the import path.  forked: not
    in a process whose interpreter has started for it, which takes longer than most programs.
    """
    path = os.pathsep.join(filter(None, [str(root), beside]))
    body = "".join(f"    {line}\n" for line in code.splitlines())
    (root / "program.py").write_text(f"def work(*_):\n{body}")
    (root / "own").mkdir(exist_ok=True)
    given = {"PYTHONPATH": path, **environment}
    started = {"PYTHONPATH": str(Path(__file__).parent)} if forked else given
    worker_parent.run(
        FORKING if forked else worker_parent.module("aotc.pipeline.children.recorded_worker"),
        Job("program", str(root / "program.toml"), str(root / "own"), b"", given if forked else {}),
        type(None),
        within=root / "own",
        environment={**os.environ, "PYTHONHASHSEED": "0", **started},
        processes=Processes(),
        working=root,
    )
    return Recording.read(root / "own", "program")


class Together:
    """Programs that ran one after the other in one process: starting it takes longer than they do.

    Each is a file of its own.
    """

    def __init__(self, root: Path, programs: Sequence[str], beside: str = "") -> None:
        self.root = root
        self._files = {code: f"program_{number}.py" for number, code in enumerate(programs)}
        for code, name in self._files.items():
            body = "".join(f"    {line}\n" for line in code.splitlines())
            (root / name).write_text(f"def main():\n{body}")
        modules = [name.removesuffix(".py") for name in self._files.values()]
        calls = "\n".join(f"import {name}; {name}.main()" for name in modules)
        self.recording = record(root, calls, beside=beside, forked=False)

    def refused(self, code: str, reason: str) -> bool:
        """Whether the result is not kept for this reason, and because of this program."""
        refusals = self.recording.reads.refusals
        return any(
            reason in told and told.endswith(f" in {self._files[code]}") for told in refusals
        )


ASKING = [
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
    ("import os; os.getcwd()", "the system: getcwd"),
    ("import os; os.getrandom(1)", "chance: getrandom"),
    ("import _random; _random.Random()", "chance: Random"),
    ("import random\nclass Mine(random.Random): pass\nMine()", "chance: Random"),
    ("import random; random.Random(3).seed()", "chance: Random"),
    ("import tempfile; tempfile.mktemp()", "chance: mktemp"),
    ("import resource; resource.getrusage(0)", "the system: getrusage"),
    ("import threading; threading.get_native_id()", "the system: get_native_id"),
    ("import multiprocessing; multiprocessing.current_process().pid", "the system: ident"),
    ("import time; time.time.__call__()", "the clock: time"),
]  # fmt: skip

ASKED_BY_OTHERS = [
    ("import os; max(['program.py'], key=os.path.getmtime)", "the clock: getmtime"),
    ("import os; [e.stat() for e in os.scandir('.')]", "the clock: stat"),
    ("import os; f = open('program.py'); os.fstat(f.fileno())", "the clock: fstat"),
    ("import functools, time; functools.partial(time.time)()", "the clock: time"),
    ("import time; next(iter(time.time, None))", "the clock: time"),
    ("import os; list(map(os.stat, ['.']))", "the clock: stat"),
    ("import datetime; next(iter(datetime.datetime.now, None))", "the clock: now"),
    ("import random; list(map(random.gauss, [0], [1]))", "chance: gauss"),
    ("from dataclasses import dataclass, field\nimport time\n@dataclass\nclass A:\n"
         "    t: float = field(default_factory=time.time)\nA()", "the clock: time"),
    ("import pathlib; pathlib.Path.cwd()", "the system: cwd"),
    ("import numpy; numpy.random.Generator(numpy.random.Philox())", "chance: Philox"),
]  # fmt: skip


@pytest.fixture(scope="module")
def all_that_ask(tmp_path_factory: pytest.TempPathFactory) -> Together:
    """Each names the file that asked, so that no program answers for another."""
    asking = [code for code, _ in ASKING + ASKED_BY_OTHERS]
    return Together(tmp_path_factory.mktemp("asking"), asking)


@pytest.mark.parametrize(("code", "reason"), ASKING)
def test_a_program_is_not_kept_that_asks_the_clock_chance_or_the_system(
    code: str, reason: str, all_that_ask: Together
) -> None:
    assert all_that_ask.refused(code, reason)


@pytest.mark.parametrize(("code", "reason"), ASKED_BY_OTHERS)
def test_what_others_ask_for_the_program_is_asked_by_it(
    code: str, reason: str, all_that_ask: Together
) -> None:
    assert all_that_ask.refused(code, reason)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("open('/dev/urandom', 'rb').read(1)", "it read /dev/urandom"),
        ("import os; os.symlink('/dev/urandom', 'x'); open('x', 'rb').read(1)", "x is a pipe or"),
        ("open('/proc/self/stat').read()", "it read /proc/"),
        ("import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: pass",
         "network"),
        ("import subprocess; subprocess.run(['true'])", "started a process"),
        ("import os; os.system('true')", "started a process"),
        ("import ctypes; ctypes.CDLL('libc.so.6')", "native code"),
        ("import ctypes; ctypes.CDLL(None).getenv(b'HOME')", "native code by name"),
        ("import ctypes; ctypes.CDLL(None)['time'](None)", "native code by name"),
        ("import ctypes; ctypes.pythonapi.getpid()", "native code by name"),
        ("import ctypes; ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ')",
         "native code by name"),
        ("import _ctypes; _ctypes.dlsym(_ctypes.dlopen(None, 0), 'getpid')",
         "native code by name"),
        ("import reads_by_ctypes", "native code by name"),
        ("import sqlite3; sqlite3.connect(':memory:')", "database"),
        ("import safetensors", "safetensors, whose native code may read unseen: "),
        ("import h5py.h5f; h5py.h5f.open('x')", "it called h5py.h5f.open"),
        ("import h5py.reads", "it called h5py.h5f.open"),
        ("import onnx.checker", "it called onnx.onnx_cpp2py_export.checker.check_model"),
        ("import psutil; psutil.users()", "the system: psutil._psutil_linux.users"),
        ("import psutil; psutil.virtual_memory()", "it read /proc/meminfo"),
        ("import starts_by_chance", "it read /dev/urandom"),
        ("import platform; platform.processor()", "started a process"),
        (
            "import os; os.mkfifo('p')\n"
            "if os.fork() == 0: open('p', 'w').close(); os._exit(0)\n"
            "open('p').read()",
            "p is a pipe or a device",
        ),
        ("x = open('program.py', 'a'); x.write('#'); x.close()", "program.py was changed"),
    ],
)  # fmt: skip
def test_a_program_is_not_kept_that_asks(
    code: str, reason: str, tmp_path: Path, libraries_of_others: str
) -> None:
    refusals = record(tmp_path, code, beside=libraries_of_others).reads.refusals
    assert any(reason in refusal for refusal in refusals)


LIBRARIES = {
    "h5py/__init__.py": "",
    "h5py/h5f.py": "def open(name): return name\ndef kind(): return 'sec2'\n",
    "h5py/reads.py": "from h5py.h5f import open\nopen('data')\n",
    "onnx/__init__.py": "",
    "onnx/onnx_cpp2py_export.py": (
        "class checker:\n  check_model = staticmethod(len)\n"
        "class defs:\n  get_schema = staticmethod(len)\n"
    ),
    "onnx/checker.py": "from onnx.onnx_cpp2py_export import checker\nchecker.check_model('x')\n",
    "starts_by_chance.py": "open('/dev/urandom', 'rb').read(1)\n",
    "reads_by_ctypes.py": "import ctypes\nctypes.CDLL(None).getenv(b'HOME')\n",
    "asks_the_processor.py": "import platform\nplatform.processor()\n",
}
"""Libraries that are not installed here: by file, what is in them."""


@pytest.fixture
def libraries_of_others(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder on the import path that counts as one of installed packages."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "h5py-3.dist-info").mkdir()
    for name, text in LIBRARIES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


STEADY = [
    "import random; random.Random(3).random()",
    "import random\nclass Mine(random.Random):\n  def __init__(self, a): super().__init__(a)\n"
    "Mine(3)",
    "import tempfile; next(tempfile._get_candidate_names())",
    "import ctypes; ctypes.CDLL(None); ctypes.string_at(b'x')",
    "import numpy; numpy.random.default_rng(3).normal()",
    "import time; time.sleep(0)",
    "import datetime; datetime.date(2026, 1, 1)",
    "import h5py.h5f; h5py.h5f.kind()",
    "import onnx.onnx_cpp2py_export as native; native.defs.get_schema('x')",
    "import PIL.Image; PIL.Image.new('L', (2, 2)).resize((4, 4))",
    "open('new', 'w').write('x'); open('new').read()",
    "open('/dev/null').read()",
    # Last, since others after them would draw from what is seeded.
    "import numpy; numpy.random.seed(0); numpy.random.normal()",
    "import random; random.seed(0); random.random()",
]


def test_programs_are_kept_that_do_the_same_each_time(
    tmp_path: Path, libraries_of_others: str
) -> None:
    assert Together(tmp_path, STEADY, libraries_of_others).recording.reads.refusals == ()


@pytest.mark.parametrize(
    "code",
    [
        "import random; random.seed(0); list(map(random.gauss, [0], [1]))",
        "import ctypes, uuid, psutil, scipy.stats, PIL.Image",
        "import tempfile, logging, numpy, msgspec, msgpack, yaml",
        "import psutil",
        "import asks_the_processor",
    ],
)
def test_a_program_is_kept_that_does_the_same_each_time(
    code: str, tmp_path: Path, libraries_of_others: str
) -> None:
    assert record(tmp_path, code, beside=libraries_of_others).reads.refusals == ()


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


LIBRARY = {
    "other-1.dist-info/METADATA": "Name: other\nVersion: 1\n",
    "asks_a_version.py": "from importlib.metadata import version\nVALUE = version('other')\n",
    "looks_for_plugins.py": "from importlib.metadata import entry_points\n"
    "VALUE = len(entry_points(group='plugs'))\n",
    "optional/__init__.py": "try: from optional import _fast\nexcept ImportError: pass\n",
}
CHANGED = {
    "asks_a_version": ("other-1.dist-info/METADATA", "Name: other\nVersion: 1.5\n"),
    "looks_for_plugins": ("new-1.dist-info/METADATA", "Name: new\nVersion: 1\n"),
    "optional": ("optional/_fast.py", ""),
}


@pytest.mark.parametrize(("module", "file", "text"), [(k, *v) for k, v in CHANGED.items()])
def test_what_a_library_asks_of_what_is_installed_counts(
    module: str, file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    for name, content in LIBRARY.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    reads = record(tmp_path, f"import {module}", beside=str(site)).reads
    assert reads.refusals == ()
    monkeypatch.syspath_prepend(site)
    before = parts(tmp_path, reads)
    assert parts(tmp_path, reads) == before
    (site / file).parent.mkdir(exist_ok=True)
    (site / file).write_text(text)
    importlib.invalidate_caches()
    assert parts(tmp_path, reads) != before
    assert "optional" not in sys.modules


def test_that_jax_looks_for_plugins_does_not_count(tmp_path: Path) -> None:
    reads = record(tmp_path, "import jax; jax.devices()", JAX_PLATFORMS="cpu").reads
    assert not reads.distributions and "pytest" not in reads.packages


def test_what_was_a_file_and_is_a_pipe_now_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"data")
    reads = Reads(files=("data",))
    before = parts(tmp_path, reads)
    (tmp_path / "data").unlink()
    os.mkfifo(tmp_path / "data")
    assert parts(tmp_path, reads) != before


def test_variables_are_seen_by_name_and_without_their_values(tmp_path: Path) -> None:
    code = "import os; os.environ.get('SECRET'); os.getenv('UNSET'); 'ASKED' in os.environ"
    found = record(tmp_path, code, SECRET="hunter2")
    assert {"SECRET", "UNSET", "ASKED"} <= set(found.reads.environment)
    assert found.parts["environment UNSET"] == ABSENT
    assert "hunter2" not in str(found.parts)
    assert "*" in record(tmp_path, "import os; dict(os.environ)").reads.environment


READS_VARIABLES = """
import os
import tempfile
import jax
import reads_one
os.environ.get("MINE")
os.environ.get("JAX_ENABLE_X64")
os.environ.get("PYTHONHASHSEED")
os.path.expanduser("~")
"""


def test_variables_that_the_program_reads_are_told_apart_from_those_of_the_toolchain(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "one-1.dist-info").mkdir()
    (site / "reads_one.py").write_text("import os\nos.getenv('ONE_OF_A_LIBRARY')\n")
    code = "; ".join(READS_VARIABLES.strip().splitlines())
    reads = record(tmp_path, code, beside=str(site), MINE="1", HOME="/root", UNRELATED="1").reads
    assert {"JAX_ENABLE_X64", "PYTHONHASHSEED", "MINE"} <= set(reads.environment)
    assert Scratch(tmp_path / "own").read_variables() == {
        "HOME": True,
        "MINE": True,
        "ONE_OF_A_LIBRARY": False,
    }
    record(tmp_path, "import os; dict(os.environ)")
    assert Scratch(tmp_path / "own").read_variables() == {"*": True}


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


@pytest.mark.parametrize("name", ["digits-1.0.0.aotb", "numpy.aotb", "numpy.toml", "numpys.py"])
def test_a_file_that_no_import_would_take_changes_nothing(tmp_path: Path, name: str) -> None:
    reads = Reads(searched=(".",), modules=("numpy",))
    before = parts(tmp_path, reads)
    (tmp_path / name).write_bytes(b"")
    assert parts(tmp_path, reads) == before


@pytest.mark.parametrize("name", ["numpy", "numpy.pyc", f"numpy{EXTENSION_SUFFIXES[0]}"])
def test_whatever_an_import_could_take_is_noticed(tmp_path: Path, name: str) -> None:
    reads = Reads(searched=(".",), modules=("numpy",))
    before = parts(tmp_path, reads)
    (tmp_path / name).write_bytes(b"")
    assert parts(tmp_path, reads) != before


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


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("import os; os.environb.get(b'ASKED')", "ASKED"),
        ("import posix; posix.environ.get(b'ASKED')", "ASKED"),
        ("import posix; dict(posix.environ)", "*"),
        ("import posix; posix.environ.copy()", "*"),
        ("import os; os.environ._data.get(b'ASKED')", "ASKED"),
        ("import os; dict(vars(os.environb)['_data'])", "*"),
        ("import os; repr(os.environ)", "*"),
    ],
)
def test_variables_are_seen_whichever_way_they_are_asked_for(
    code: str, asked: str, tmp_path: Path
) -> None:
    found = record(tmp_path, code)
    assert asked in found.reads.environment
    assert asked in Scratch(tmp_path / "own").read_variables()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
         "ThreadPoolExecutor().submit(time.time).result()", "the clock: time"),
        ("import random\nfrom concurrent.futures import ThreadPoolExecutor\n"
         "list(ThreadPoolExecutor().map(random.gauss, [0], [1]))", "chance: gauss"),
        ("exec('import time; time.time()')", "the clock: time"),
        ("import os\nif not os.path.exists('made'): open('made', 'w')", "made came or went"),
        ("import os\nos.listdir('.')\nopen('made', 'w').close()", "names in"),
        ("import socket, threading\ndef g():\n    pass\n"
         "t = threading.Thread(target=socket.getaddrinfo, args=('127.0.0.1', 9))\n"
         "t.start(); t.join()", "network"),
    ],
)  # fmt: skip
def test_what_others_call_for_the_program_is_seen_as_its_own(
    code: str, reason: str, tmp_path: Path
) -> None:
    refusals = record(tmp_path, code).reads.refusals
    assert any(reason in refusal for refusal in refusals)


EXISTENCE = [
    "import os; list(filter(os.path.exists, ['maybe']))",
    "import glob; glob.glob('maybe')",
    "import pathlib; pathlib.Path('maybe').exists()",
    "import pathlib; asks = pathlib.Path('maybe').is_file; asks()",
    "import os, functools; functools.partial(os.path.isdir, 'maybe')()",
    "import os; os.path.exists(path='maybe')",
    "import os; os.access('maybe', os.R_OK)",
    "exec('import os; os.path.exists(\"maybe\")')",
]


def test_questions_for_existence_are_seen_however_they_are_asked(tmp_path: Path) -> None:
    asked = {f"maybe{number}": code for number, code in enumerate(EXISTENCE)}
    programs = [code.replace("maybe", name) for name, code in asked.items()]
    assert asked.keys() <= set(Together(tmp_path, programs).recording.reads.looked)


def test_a_pattern_without_a_wildcard_is_seen(tmp_path: Path) -> None:
    reads = record(tmp_path, "import pathlib; list(pathlib.Path('.').glob('maybe'))").reads
    # Python 3.12 lists the folder, 3.13 asks for the name.
    assert reads.folders == (".",) if sys.version_info < (3, 13) else "maybe" in reads.looked


def test_a_list_of_names_is_seen_in_other_threads(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    code = (
        "import os\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "list(ThreadPoolExecutor().map(os.listdir, ['data']))"
    )
    assert record(tmp_path, code).reads.folders == ("data",)


FOLLOWED = [
    "import pathlib; pathlib.Path('link').resolve()",
    "import os; os.path.realpath('link')",
    "import os; os.readlink('link')",
    "import pathlib; pathlib.Path('link').readlink()",
    "import pathlib; pathlib.Path('link').is_symlink()",
    "import os; os.path.samefile('a', 'link')",
]


def test_where_a_link_leads_counts_where_it_was_asked_for(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    asked = {f"link{number}": code for number, code in enumerate(FOLLOWED)}
    for name in asked:
        (tmp_path / name).symlink_to("a")
    programs = [code.replace("link'", f"{name}'") for name, code in asked.items()]
    reads = Together(tmp_path, programs).recording.reads
    before = parts(tmp_path, reads)
    for name in asked:
        assert name in reads.links
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("b")
        changed = parts(tmp_path, reads)
        assert {part for part in before if changed[part] != before[part]} == {f"where {name} leads"}
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("a")


def test_where_a_link_leads_is_the_same_in_another_folder(tmp_path: Path) -> None:
    found = []
    for root in (tmp_path / "one", tmp_path / "other"):
        (root / "a").mkdir(parents=True)
        (root / "link").symlink_to("a")
        found.append(parts(root, Reads(links=("link", "a"))))
    assert found[0] == found[1]


def test_a_file_of_which_the_size_was_asked_is_one_that_was_read(tmp_path: Path) -> None:
    assert "program.py" in record(tmp_path, "import os; os.path.getsize('program.py')").reads.files


def test_a_file_that_a_program_writes_and_reads_counts_with_what_is_in_it(tmp_path: Path) -> None:
    code = "open('made', 'w').write('x'); open('made').read()"
    reads = record(tmp_path, code).reads
    before = parts(tmp_path, reads)
    (tmp_path / "made").write_text("y")
    assert parts(tmp_path, reads) != before


def test_a_folder_above_the_target_of_a_link_is_not_mistaken(tmp_path: Path) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "a.txt").write_text("far")
    (tmp_path / "a.txt").write_text("near")
    (tmp_path / "link").symlink_to("far/deep")
    found = record(tmp_path, "open('link/../a.txt').close()")
    (tmp_path / "far" / "a.txt").write_text("other")
    assert parts(tmp_path, found.reads) != found.parts


def test_files_in_shared_memory_are_files(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        found = record(tmp_path, f"open({file.name!r}).close()").reads
    assert file.name in found.files and found.refusals == ()


def test_a_folder_of_the_import_path_counts_before_it_is_there(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    (tmp_path / "helper.py").write_text("")
    found = record(tmp_path, "import helper", forked=False, PYTHONPATH=f"{absent}:{tmp_path}")
    absent.mkdir()
    (absent / "helper.py").write_text("")
    assert str(absent.relative_to(tmp_path)) in found.reads.searched
    assert Looking(tmp_path, {}).parts(found.reads) != found.parts


def test_the_current_folder_counts_where_it_is_on_the_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path("/nowhere")
    for path in ("lib", f"{tmp_path}:", f"{tmp_path}:lib"):
        before = native_parts({"PYTHONPATH": path}, root)
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            assert native_parts({"PYTHONPATH": path}, root) != before
    for path in ("", str(tmp_path)):
        before = native_parts({"PYTHONPATH": path}, root)
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            assert native_parts({"PYTHONPATH": path}, root) == before


def test_folders_of_the_import_path_below_the_manifest_are_the_same_in_every_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for path in ("src", str(tmp_path / name / "src")):
            found.append(native_parts({"PYTHONPATH": path}, tmp_path / name))
    assert all(each == found[0] for each in found)
    assert native_parts({"PYTHONPATH": "lib"}, tmp_path / "two") != found[0]


@pytest.mark.parametrize("marker", [".git", "pyproject.toml"])
def test_what_was_checked_out_with_the_manifest_is_the_same_in_every_checkout(
    tmp_path: Path, marker: str
) -> None:
    """A manifest in `deploy`, the program in `src` beside it."""
    made: list[tuple[Recording, dict[str, str]]] = []
    for name in ("one", "another"):
        deploy, src = tmp_path / name / "deploy", tmp_path / name / "src"
        for folder in (deploy, src):
            folder.mkdir(parents=True)
        (tmp_path / name / marker).touch()
        (src / "shared.py").write_text("from pathlib import Path\nWHERE = Path(__file__).parent\n")
        (src / "weights.txt").write_text("1")
        (src / "link").symlink_to("weights.txt")
        code = "import shared\n(shared.WHERE / 'link').resolve().read_text()"
        path = {"PYTHONPATH": f"{deploy}:{src}"}
        made.append((record(deploy, code, forked=False, **path), native_parts(path, deploy)))
    (one, its), (_, others) = made
    assert {"../src/shared.py", "../src/weights.txt"} <= set(one.reads.files)
    assert one.parts["place of module shared"] == "../src/shared.py"
    assert its["environment PYTHONPATH"] == others["environment PYTHONPATH"]
    elsewhere = tmp_path / "another" / "deploy"
    path = {"PYTHONPATH": f"{elsewhere}:{tmp_path / 'another' / 'src'}"}
    assert parts(elsewhere, one.reads, **path) == one.parts
    (tmp_path / "another" / "src" / "weights.txt").write_text("2")
    assert parts(elsewhere, one.reads, **path) != one.parts


def test_what_lies_beside_a_manifest_that_belongs_to_no_checkout_keeps_its_path(
    tmp_path: Path,
) -> None:
    for name in ("deploy", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "shared.py").touch()
    path = f"{tmp_path / 'deploy'}:{tmp_path / 'src'}"
    found = record(tmp_path / "deploy", "import shared", forked=False, PYTHONPATH=path)
    assert str(tmp_path / "src" / "shared.py") in found.reads.files


def test_what_is_beside_a_link_to_a_folder_is_not_beside_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / ".git").touch()
    (tmp_path / "far" / "deploy").mkdir(parents=True)
    (tmp_path / "deploy").symlink_to("far/deploy")
    root = tmp_path / "deploy"
    assert place(str(tmp_path / "data"), root) == "../data"
    assert path_at("../data", root) == tmp_path / "data"
    assert path_at("data", root) == root / "data"
    above_a_link = str(tmp_path / "far" / "link" / ".." / "data")
    assert place(above_a_link, root) == above_a_link


def test_old_bytecode_of_the_same_time_and_size_is_not_taken(tmp_path: Path) -> None:
    helper = tmp_path / "helper.py"
    for value in "ab":
        helper.write_text(f"value = {value!r}\n")
        os.utime(helper, (1, 1))
        if value == "a":
            py_compile.compile(str(helper))
    code = "import helper\nopen(f'/{helper.value}')"
    with pytest.raises(worker_parent.CrashedError) as caught:
        record(tmp_path, code, forked=False)
    assert "'/b'" in caught.value.found(1)


def test_where_imports_lead_counts(tmp_path: Path) -> None:
    """A package that is installed for editing lies elsewhere, whichever checkout is built."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "shared.py").write_text("")
    path = {"PYTHONPATH": f"{one}:{two}"}
    found = record(one, "import shared", forked=False, **path)
    assert set(found.reads.own) >= {"program", "shared"}
    assert found.parts["place of module shared"] == "shared.py"
    assert parts(one, found.reads, **path)["place of module shared"] == "shared.py"
    other = {"PYTHONPATH": f"{two}:{one}"}
    assert parts(one, found.reads, **other)["place of module shared"] == "shared.py", (
        "root is first"
    )
    (one / "shared.py").unlink()
    assert parts(one, found.reads, **other)["place of module shared"] == str(two / "shared.py")
    (two / "shared.py").unlink()
    assert parts(one, found.reads, **other)["place of module shared"] == "nowhere"


def test_modules_that_the_program_itself_makes_findable_have_no_place_of_their_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "far.py").write_text("")
    found = record(tmp_path, f"import sys\nsys.path.append({str(tmp_path / 'away')!r})\nimport far")
    assert "far" not in found.reads.own and "away/far.py" in found.reads.files
