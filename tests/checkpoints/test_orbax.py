"""Weights that Orbax has saved, read as Orbax reads them; damaged and hostile ones are refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.capture import orbax_checkpoint
from aotc.capture.checkpoint_tensors import open_weights
from aotc.capture.orbax_checkpoint import ArrayBytes
from aotc.config.build_manifest import SourceFile
from aotc.config.checkpoint_files import files_of
from aotc.config.manifest_specs import WeightsSpec
from aotc.pipeline.build import Built, build
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Kind
from tests.waiting import until

pytestmark = [pytest.mark.orbax]
ocp = pytest.importorskip("orbax.checkpoint", reason="make test-orbax")

WHERE = "aotc.toml:3 weights.params.source"
TREE: dict[str, Any] = {
    "layers": [
        {"kernel": jnp.arange(6, dtype=jnp.float32).reshape(2, 3)},
        {"kernel": jnp.full((3, 2), 0.5, jnp.bfloat16), "none": None},
    ],
    "mask": np.array([True, False]),
    "zeros": np.zeros((2048, 1024), np.float32),
    "scale": np.float32(3),
    "a/b": np.arange(5, dtype=np.int8),
}
ARRAYS = {
    "layers/0/kernel": TREE["layers"][0]["kernel"],
    "layers/1/kernel": TREE["layers"][1]["kernel"],
    **{name: TREE[name] for name in ("mask", "zeros", "scale", "a/b")},
}
FORMATS = {
    "ocdbt": {},
    "zarr": {"use_ocdbt": False},
    "zarr3 in ocdbt": {"use_zarr3": True},
    "zarr3": {"use_ocdbt": False, "use_zarr3": True},
}


def save(folder: Path, tree: Any, **options: bool) -> Path:
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(folder, tree)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    return {name: save(folder / name, TREE, **options) for name, options in FORMATS.items()}


def opened(folder: Path, scratch: Path, **more: Any) -> dict[str, Any]:
    spec = WeightsSpec(source={"": SourceFile("checkpoint", folder)}, **more)
    _, tensors = open_weights(spec, WHERE, scratch)
    for tensor in tensors.values():
        tensor.file.fetch()
    return {
        name: np.frombuffer(b"".join(each.chunks()), each.dtype).reshape(each.shape)
        for name, each in tensors.items()
    }


def refused(folder: Path, scratch: Path) -> str:
    """What the one finding says."""
    with pytest.raises(CaptureError) as error:
        opened(folder, scratch)
    (finding,) = error.value.findings
    assert finding.code == "AOTC-E830"
    return finding.found


@pytest.mark.parametrize("form", FORMATS)
def test_every_array_is_read_under_its_path(
    saved: dict[str, Path], tmp_path: Path, form: str
) -> None:
    found = opened(saved[form], tmp_path)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], np.asarray(array))


def test_arrays_of_many_chunks_are_read_in_order(tmp_path: Path) -> None:
    array = np.arange(4096 * 1030, dtype=np.float32).reshape(4096, 1030)
    args = ocp.args.PyTreeSave({"w": array}, {"w": ocp.SaveArgs(chunk_byte_size=2**20)})
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)) as checkpointer:
        checkpointer.save(tmp_path / "saved", args=args)
    assert len([*(tmp_path / "saved" / "w").iterdir()]) > 8
    np.testing.assert_array_equal(opened(tmp_path / "saved", tmp_path)["w"], array)


def test_a_step_of_a_manager_is_a_checkpoint(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(7, args=ocp.args.StandardSave({"w": jnp.ones((2, 2))}))
        manager.wait_until_finished()
    assert opened(tmp_path / "run" / "7" / "default", tmp_path).keys() == {"w"}


def test_names_are_replaced_and_numbers_cast_as_for_other_sources(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    found = opened(saved["ocdbt"], tmp_path, rename={"^layers/": "l"}, dtype="float16")
    assert found["l0/kernel"].dtype == found["l1/kernel"].dtype == np.float16
    assert found["a/b"].dtype == np.int8


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "_METADATA"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def renamed(document: dict[str, Any], *keys: str) -> None:
    leaf = document["tree_metadata"]["('mask',)"]
    leaf["key_metadata"] = [{"key": key, "key_type": 2} for key in keys]


def cut(pattern: str) -> Callable[[Path], None]:
    def shorten(folder: Path) -> None:
        path = max(folder.glob(pattern), key=lambda file: file.stat().st_size)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return shorten


def giant(folder: Path) -> None:
    path = folder / "zeros" / ".zarray"
    document = json.loads(path.read_text())
    document |= {"shape": [2**40, 1024]}
    path.write_text(json.dumps(document))


def linked(folder: Path) -> None:
    (folder / "more").symlink_to("/etc/hostname")


HOSTILE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "no array of a name": ("ocdbt", edited(lambda d: renamed(d, "other")), "does not exist"),
    "a name that climbs": ("zarr", edited(lambda d: renamed(d, "../x")), "leads elsewhere"),
    "a step that climbs": ("zarr", edited(lambda d: renamed(d, "x/..", "y")), "not exist"),
    "an absolute name": ("zarr", edited(lambda d: renamed(d, "/etc")), "leads elsewhere"),
    "a control character": ("zarr", edited(lambda d: renamed(d, "a\x1b[2J")), "leads elsewhere"),
    "one name twice": (
        "zarr",
        edited(lambda d: renamed(d, "layers", "0", "kernel")),
        "another array has this name",
    ),
    "a kind that is no array": (
        "ocdbt",
        edited(lambda d: d["tree_metadata"]["('mask',)"]["value_metadata"].update(value_type="?")),
        "which is no array",
    ),
    "metadata of another version": ("ocdbt", edited(lambda d: d.pop("use_zarr3")), "use_zarr3"),
    "one that leaves data out": (
        "ocdbt",
        edited(lambda d: d.update(store_array_data_equal_to_fill_value=False)),
        "leaves out fill values",
    ),
    "metadata that is cut off": ("ocdbt", cut("_METADATA"), "_METADATA"),
    "another format than it says": ("ocdbt", edited(lambda d: d.update(use_zarr3=True)), "exist"),
    "a database that is cut off": ("ocdbt", cut("manifest.ocdbt"), "manifest"),
    "data of a database that is cut off": ("ocdbt", cut("**/d/*"), "zeros|layers|mask|scale|a/b"),
    "a chunk that is cut off": ("zarr", cut("zeros/[0-9]*"), "zeros"),
    "a chunk that is gone": ("zarr", lambda f: (f / "zeros" / "0.0").unlink(), "zeros"),
    "a giant shape": ("zarr", giant, "1099511627776x1024"),
    "a link": ("zarr", linked, "a link"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_that_is_not_whole_is_refused(
    saved: dict[str, Path], tmp_path: Path, name: str
) -> None:
    form, damage, told = HOSTILE[name]
    folder = tmp_path / "copy"
    shutil.copytree(saved[form], folder)
    damage(folder)
    found = refused(folder, tmp_path)
    assert any(each in found for each in told.split("|")), found


def test_arrays_are_together_no_larger_than_their_files_can_stand_for(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several may have the same bytes of a database."""
    size = sum(path.stat().st_size for path in saved["zarr"].rglob("*") if path.is_file())
    arrays = [array.nbytes for array in opened(saved["zarr"], tmp_path).values()]
    monkeypatch.setattr(orbax_checkpoint, "COMPRESSED_MAX", sum(arrays) / size)
    opened(saved["zarr"], tmp_path)
    monkeypatch.setattr(orbax_checkpoint, "COMPRESSED_MAX", (sum(arrays) - 1) / size)
    assert max(arrays) < sum(arrays) - 1
    assert "in a checkpoint of" in refused(saved["zarr"], tmp_path)


def test_everything_that_is_wrong_is_named_at_once(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved["zarr"], folder)
    for name in ("mask", "scale"):
        shutil.rmtree(folder / name)
    assert {name in refused(folder, tmp_path) for name in ("mask", "scale")} == {True}


FETCHING = """
import os, resource, sys
from pathlib import Path
from aotc.capture.checkpoint_tensors import open_weights
from aotc.config.build_manifest import SourceFile
from aotc.config.manifest_specs import WeightsSpec

folder, scratch, largest = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), resource.RLIM_INFINITY))
spec = WeightsSpec(source={"": SourceFile("checkpoint", Path(folder))})
_, tensors = open_weights(spec, "x", Path(scratch))
before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
try:
    next(iter(tensors.values())).file.fetch()
except OSError as error:
    sys.exit(f"no room: {error.errno}")
after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(1024 * before, 1024 * after)
"""


def fetched_elsewhere(folder: Path, scratch: Path, largest: int) -> CompletedProcess[str]:
    """Memory of the process that describes the arrays, and of the one that writes their bytes."""
    scratch.mkdir()
    command = [sys.executable, "-P", "-c", FETCHING, str(folder), str(scratch), str(largest)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_one_chunk_at_a_time_is_in_memory_however_many_there_are(tmp_path: Path) -> None:
    """Orbax saves an array as one chunk, if nobody asks for smaller ones."""
    chunk, count = 2**25, 12
    tree = {f"w{n}": np.full(chunk // 4, n, np.float32) for n in range(count)}
    save(tmp_path / "saved", tree, use_ocdbt=False)
    done = fetched_elsewhere(tmp_path / "saved", tmp_path / "scratch", 2**40)
    described, written = map(int, done.stdout.split())
    assert written - described < 5 * chunk < count * chunk
    assert sum(p.stat().st_size for p in (tmp_path / "scratch").rglob("*")) > count * chunk


def test_a_place_without_room_for_an_array_is_no_fault_of_the_checkpoint(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    done = fetched_elsewhere(saved["ocdbt"], tmp_path / "scratch", 2**20)
    assert (done.returncode, done.stderr.strip()) == (1, f"no room: {errno.EFBIG}")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, "AOTC-E835"), (signal.SIGSEGV, "AOTC-E830")]
)
def test_a_reader_that_is_ended_is_told_and_leaves_nothing_to_be_read(
    saved: dict[str, Path], tmp_path: Path, number: signal.Signals, code: str
) -> None:
    """A crash is the checkpoint's doing; of want of memory it is the system that kills."""
    spec = WeightsSpec(source={"": SourceFile("checkpoint", saved["ocdbt"])})
    _, tensors = open_weights(spec, WHERE, tmp_path)
    data = tensors["mask"].file
    assert isinstance(data, ArrayBytes)

    def kill() -> None:
        reader = until(lambda: [*readers()], "the process that reads it has begun")
        os.kill(reader[0], number)

    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill)
        with pytest.raises(CaptureError) as error:
            data.fetch()
        killed.result()
    assert (error.value.code, data.checkpoint.folder) == (code, None)
    assert number.name in error.value.findings[0].found
    data.fetch()
    assert b"".join(tensors["mask"].chunks()) == TREE["mask"].tobytes()


def readers() -> Iterator[int]:
    """Processes of this one that read a checkpoint."""
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            parent = status.read_text().partition("PPid:")[2].split()[0]
            command = (status.parent / "cmdline").read_bytes()
            if int(parent) == os.getpid() and b"aotc.capture.orbax_worker" in command:
                yield int(status.parent.name)


def test_one_that_was_not_finished_has_no_metadata(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    source = SourceFile("unfinished", tmp_path / "unfinished")
    assert [file.path for file in files_of(source)] == [tmp_path / "unfinished"]


MANIFEST = """
schema = 1
name = "tree"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]
[weights.params]
source = "checkpoint"
[entry_points.f]
function = "program:f"
bind = { params = "params" }
inputs.x = { shape = [4], dtype = "float32" }
"""
PROGRAM = "def f(params, x):\n    return x @ params['dense']['w'] + params['dense']['b']\n"


def test_a_bundle_is_built_of_one_and_built_again_from_the_cache(tmp_path: Path) -> None:
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    save(tmp_path / "checkpoint", {"dense": {"w": w, "b": b}})
    (tmp_path / "tree.toml").write_text(MANIFEST)
    (tmp_path / "program.py").write_text(PROGRAM)

    def built() -> Built:
        cache = LocalStore(tmp_path / "cache", 10**9)
        return build(tmp_path / "tree.toml", output=tmp_path / "tree.aotb", cache=cache)

    first = built()
    assert "checkpoint/_METADATA" in first.program.files
    again = built()
    ran = {done.task.kind: done.reasons for done in again.tasks if not done.cached}
    assert ran.keys() == {Kind.CAPTURE, Kind.PACK}, ran
    assert again.bundle.root_digest == first.bundle.root_digest


def test_init_names_a_checkpoint_and_profiles_are_probed_with_its_weights(tmp_path: Path) -> None:
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    save(tmp_path / "checkpoint", {"dense": {"w": w, "b": b}})
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "traffic.jsonl").write_text('{"n": 3}\n')

    def aotc(*arguments: str) -> str:
        command = [sys.executable, "-m", "aotc.cli.main", *arguments, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    aotc("init", "program:f", "--weights", "params=checkpoint", "--input", "x=float32[n,4]")
    assert 'source = "checkpoint"' in (tmp_path / "program.toml").read_text()
    suggest = ("profiles", "suggest", "program.toml", "--traffic", "traffic.jsonl")
    assert json.loads(aotc(*suggest))["cost_model"]["unit"] == "operations"
