"""Weights that Orbax has saved, read as Orbax reads them; damaged and hostile ones are refused."""

from __future__ import annotations

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
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from aotc.base.errors import CaptureError
from aotc.base.workers import confined_process, worker_parent
from aotc.base.workers.confined_process import MEMORY_VARIABLE
from aotc.capture.checkpoint_tensors import open_weights
from aotc.config.build_manifest import SourceFile
from aotc.config.checkpoint_files import files_of
from aotc.config.manifest_specs import WeightsSpec
from aotc.pipeline.build import Built, build
from aotc.pipeline.build_options import BuildOptions
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_tasks import Kind
from tests.small_manifests import one_function
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


def opened(folder: Path, **more: Any) -> dict[str, Any]:
    spec = WeightsSpec(source={"": SourceFile("checkpoint", folder)}, **more)
    _, tensors = open_weights(spec, WHERE)
    return {
        name: np.frombuffer(b"".join(each.chunks()), each.dtype).reshape(each.shape)
        for name, each in tensors.items()
    }


def refused(folder: Path) -> str:
    """Return what the one finding says."""
    with pytest.raises(CaptureError) as error:
        opened(folder)
    (finding,) = error.value.findings
    assert finding.code == "AOTC-E830"
    return finding.found


@pytest.mark.parametrize("form", FORMATS)
def test_arrays_are_read_by_path(saved: dict[str, Path], tmp_path: Path, form: str) -> None:
    found = opened(saved[form])
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
    np.testing.assert_array_equal(opened(tmp_path / "saved")["w"], array)


def test_a_step_of_a_manager_is_a_checkpoint(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(7, args=ocp.args.StandardSave({"w": jnp.ones((2, 2))}))
        manager.wait_until_finished()
    assert opened(tmp_path / "run" / "7" / "default").keys() == {"w"}


def test_rules_rename_and_cast_as_for_other_sources(saved: dict[str, Path], tmp_path: Path) -> None:
    found = opened(saved["ocdbt"], rename={"^layers/": "l"}, dtype="float16")
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
    "one name twice": ("zarr", edited(lambda d: renamed(d, "layers", "0", "kernel")), "TypeError"),
    "a kind that is no array": (
        "ocdbt",
        edited(lambda d: d["tree_metadata"]["('mask',)"]["value_metadata"].update(value_type="?")),
        "Unknown type",
    ),
    "one that leaves data out": (
        "ocdbt",
        edited(lambda d: d.update(store_array_data_equal_to_fill_value=False)),
        "leaves out data",
    ),
    "metadata that is cut off": ("ocdbt", cut("_METADATA"), "_METADATA"),
    "another format than it says": ("ocdbt", edited(lambda d: d.update(use_zarr3=True)), "exist"),
    "a database that is cut off": ("ocdbt", cut("manifest.ocdbt"), "manifest"),
    "data of a database that is cut off": ("ocdbt", cut("**/d/*"), "zeros|layers|mask|scale|a/b"),
    "a chunk that is cut off": ("zarr", cut("zeros/[0-9]*"), "zeros"),
    "a chunk that is gone": ("zarr", lambda f: (f / "zeros" / "0.0").unlink(), "zeros"),
    "a link": ("zarr", linked, "a link"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_incomplete_checkpoint_rejected(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    form, damage, told = HOSTILE[name]
    folder = tmp_path / "copy"
    shutil.copytree(saved[form], folder)
    damage(folder)
    found = refused(folder)
    assert any(each in found for each in told.split("|")), found


def test_every_leaf_that_is_no_array_is_named(tmp_path: Path) -> None:
    save(tmp_path / "saved", {"text": "words", "w": np.ones(2, np.float32)})
    assert "text: str, which no weights have" in refused(tmp_path / "saved")


def test_a_reader_that_is_ended_is_reported(saved: dict[str, Path]) -> None:
    def kill() -> None:
        reader = until(lambda: [*readers()], "the process that reads it has begun")
        os.kill(reader[0], signal.SIGKILL)

    with ThreadPoolExecutor(1) as beside:
        killed = beside.submit(kill)
        with pytest.raises(CaptureError) as error:
            opened(saved["ocdbt"])
        killed.result()
    assert error.value.code == "AOTC-E835"
    assert "SIGKILL" in error.value.findings[0].found


def test_a_giant_shape_ends_the_reader(saved: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(saved["zarr"], tmp_path / "copy")
    giant(tmp_path / "copy")
    with pytest.raises(CaptureError) as error:
        opened(tmp_path / "copy")
    assert error.value.code == "AOTC-E835"


def test_reader_memory_is_bounded(saved: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1 MiB")
    with pytest.raises(CaptureError) as error:
        opened(saved["zarr"])
    assert error.value.code in ("AOTC-E830", "AOTC-E835")


def test_the_reader_reads_no_secrets(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(saved["zarr"], folder)
    monkeypatch.setattr(confined_process, "_secrets", {str(folder / "zeros" / ".zarray")})
    assert "zeros" in refused(folder)


def replace(folder: Path, saved: Path) -> None:
    """Put another checkpoint's files over those of one, as who saves it again does."""
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.name != "_METADATA":
            copy = shutil.copy2(saved / path.relative_to(folder), path.with_name("new"))
            Path(copy).replace(path)


def exchange(folder: Path, saved: Path) -> None:
    folder.rename(folder.with_name("before"))
    shutil.copytree(saved, folder)


def add(folder: Path, saved: Path) -> None:
    shutil.copy2(saved / "_METADATA", folder / "more")


@pytest.mark.parametrize("change", [replace, exchange, add])
def test_one_that_is_replaced_while_it_is_read_is_refused(
    change: Callable[[Path, Path], None],
    saved: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Orbax opens files by name; the digests are of those that were opened before."""
    folder = tmp_path / "copy"
    shutil.copytree(saved["zarr"], folder)
    read = worker_parent.run

    def replaced(*arguments: Any, **options: Any) -> Any:
        change(folder, saved["zarr"])
        return read(*arguments, **options)

    monkeypatch.setattr(worker_parent, "run", replaced)
    spec = WeightsSpec(source={"": SourceFile("checkpoint", folder)})
    with pytest.raises(CaptureError) as error:
        open_weights(spec, WHERE)
    assert error.value.code == "AOTC-E840"


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


MANIFEST = one_function("tree", "[4]", module="program", weights='source = "checkpoint"')
PROGRAM = "def f(params, x):\n    return x @ params['dense']['w'] + params['dense']['b']\n"


def test_a_bundle_is_built_of_one_and_built_again_from_the_cache(tmp_path: Path) -> None:
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    save(tmp_path / "checkpoint", {"dense": {"w": w, "b": b}})
    (tmp_path / "tree.toml").write_text(MANIFEST)
    (tmp_path / "program.py").write_text(PROGRAM)

    def built() -> Built:
        cache = LocalStore(tmp_path / "cache", 10**9)
        return build(tmp_path / "tree.toml", tmp_path / "tree.aotb", BuildOptions(cache=cache))

    first = built()
    assert "checkpoint/_METADATA" in first.program.files
    again = built()
    ran = {done.task.kind: done.reasons for done in again.tasks if not done.cached}
    assert ran.keys() == {Kind.CAPTURE, Kind.PACK}, ran
    assert again.bundle.root_digest == first.bundle.root_digest


def test_init_names_a_checkpoint(tmp_path: Path) -> None:
    w, b = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    save(tmp_path / "checkpoint", {"dense": {"w": w, "b": b}})
    (tmp_path / "program.py").write_text(PROGRAM)

    def aotc(*arguments: str) -> str:
        command = [sys.executable, "-m", "aotc.cli.main", *arguments, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    aotc("init", "program:f", "--weights", "params=checkpoint", "--input", "x=float32[n,4]")
    assert 'source = "checkpoint"' in (tmp_path / "program.toml").read_text()
