"""Documented limits at their edge, in files that hold little but their size (sparse ones)."""

import json
import os
import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aotc.bundle.write.atomic_files import no_check
from aotc.bundle.write.bundle_writer import Form, assemble_root, write
from aotc.bundle.write.oci_descriptors import descriptor_of
from aotc_runtime.base import limits
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.oci_layout import ImageDescriptor, Index, Platform
from aotc_runtime.formats.safetensors_reader import read_tensors
from aotc_runtime.formats.tar_archive import BLOCK, read_members
from aotc_runtime.system.streamed_bundle import open_streamed, pass_file
from aotc_runtime.verification.bundle_examination import read_unverified
from tests.running import python

GIB = 2**30
OCTAL_MAX = 8 * GIB - 1
"""The largest size that tar writes in octal digits; a larger one has a spelling of its own."""


@contextmanager
def refused(code: str) -> Iterator[None]:
    with pytest.raises(BundleFormatError) as caught:
        yield
    assert caught.value.code == code


def header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("size", [OCTAL_MAX, OCTAL_MAX + 1, 200 * GIB])
def test_blob_may_be_larger_than_octal_digits_say(size: int, tmp_path: Path) -> None:
    path = tmp_path / "large.tar"
    padded = -(-size // BLOCK) * BLOCK
    with path.open("wb") as file:
        file.write(header("first", size))
        file.seek(padded, os.SEEK_CUR)
        file.write(header("last", 3) + b"end".ljust(BLOCK, b"\0") + bytes(2 * BLOCK))
    members = read_members(pass_file(path), where="x")
    assert (members["first"].size, members["last"].offset) == (size, padded + 2 * BLOCK)
    os.truncate(path, padded)
    with refused("AOTC-E103"):
        read_members(pass_file(path), where="x")


def test_a_tensor_may_have_more_bytes_than_32_bits_count(tmp_path: Path) -> None:
    elements = 50 * GIB
    told = {
        "large": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]},
        "last": {"dtype": "U8", "shape": [3], "data_offsets": [4 * elements, 4 * elements + 3]},
    }
    text = json.dumps(told).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.seek(4 * elements, os.SEEK_CUR)
        file.write(b"end")
    data = pass_file(path)
    found = read_tensors(data, where="x")
    assert found["large"].shape == (elements,)
    assert bytes(data[found["last"].start : found["last"].end]) == b"end"
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(BundleFormatError):
        read_tensors(pass_file(path), where="x")


@pytest.fixture
def few_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOBS_MAX", 2000)


@pytest.mark.usefixtures("few_blobs")
def test_an_archive_has_as_many_members_as_the_limit_and_no_more() -> None:
    data = bytearray(b"".join(header(f"m{number}", 0) for number in range(limits.BLOBS_MAX)))
    end = bytes(2 * BLOCK)
    assert len(read_members(memoryview(data + end), where="x")) == limits.BLOBS_MAX
    data += header("more", 0)
    with refused("AOTC-E104"):
        read_members(memoryview(data + end), where="x")


@pytest.mark.usefixtures("few_blobs")
def test_a_folder_has_as_many_files_as_the_limit_and_no_more(tmp_path: Path) -> None:
    blobs = tmp_path / "layout" / oci_layout.BLOB_FOLDER
    blobs.mkdir(parents=True)
    (tmp_path / "layout" / oci_layout.LAYOUT_FILE).touch()
    for number in range(limits.BLOBS_MAX - 1):
        (blobs / f"{number:064x}").touch()
    assert len(open_streamed(tmp_path / "layout").members) == limits.BLOBS_MAX
    (blobs / ("f" * 64)).touch()
    with refused("AOTC-E109"):
        open_streamed(tmp_path / "layout")


FULL = """
import mmap, sys
from aotc_runtime.base.errors import AotcError
from aotc_runtime.system.bundle_files import open_bundle
try:
    open_bundle("/nowhere")
    open_bundle(sys.argv[1])
except AotcError:
    pass  # imports are made
held = []
try:
    while True:
        held.append(mmap.mmap(-1, mmap.PAGESIZE, access=1 + len(held) % 2))
except OSError:
    del held[-32:]
try:
    open_bundle(sys.argv[1])
except AotcError as error:
    print(error.code, error.findings[0].hint)
"""
"""Opens a folder where only a few maps are left; neighbours of one protection would be one."""


def test_a_folder_of_more_files_than_the_system_maps_says_so(tmp_path: Path) -> None:
    if int(Path("/proc/sys/vm/max_map_count").read_text("ascii")) > 2**18:
        pytest.skip("this system maps so many files that holding them takes long")
    (tmp_path / oci_layout.LAYOUT_FILE).write_bytes(b"{}")
    for number in range(64):
        (tmp_path / f"{number}").write_bytes(b"x")
    done = python("-c", FULL, tmp_path)
    assert done.stdout.startswith("AOTC-E109 ") and "vm.max_map_count" in done.stdout, done.stderr


HOLDING = """
import resource, sys
from pathlib import Path
from aotc_runtime.system.held_maps import Change, HeldFiles
from aotc_runtime.system.bundle_files import map_file

resource.setrlimit(resource.RLIMIT_NOFILE, (30, 200))
held = HeldFiles()
maps = [map_file(Path(sys.argv[1]), held.map) for _ in range(60)]
assert held.change() is Change.NONE
try:
    maps += [map_file(Path(sys.argv[1]), held.map) for _ in range(200)]
except OSError as error:
    print(error.strerror)
"""


def test_files_are_held_until_the_system_gives_no_more_descriptors(tmp_path: Path) -> None:
    """A server verifies a layout of more blobs than it may have files open at first."""
    (tmp_path / "file").write_bytes(b"x")
    done = python("-P", "-c", HOLDING, tmp_path / "file")
    assert (done.returncode, done.stdout) == (0, "Too many open files\n"), done.stderr


@pytest.mark.parametrize(("more", "code"), [(0, "AOTC-E101"), (1, "AOTC-E111")])
def test_a_manifest_is_read_up_to_its_limit(more: int, code: str, tmp_path: Path) -> None:
    """It is zeros here: read, they are no JSON."""
    size = limits.MANIFEST_BYTES_MAX + more
    image = descriptor_of(
        ImageDescriptor,
        bytes(size),
        oci_layout.MANIFEST_TYPE,
        artifactType="",
        platform=Platform(architecture="amd64", os="linux", variant="v3"),
        annotations={oci_layout.TARGET_ANNOTATION: "x"},
    )
    made = assemble_root([image], {}, {})
    folder = tmp_path / "layout"
    index = Index(schemaVersion=2, mediaType=oci_layout.INDEX_TYPE, manifests=(made.root,))
    write(folder, Form.LAYOUT, index, made.blobs, no_check)
    blob = folder / oci_layout.BLOB_FOLDER / sha256(bytes(size))[7:]
    blob.touch()
    os.truncate(blob, size)
    with refused(code):
        read_unverified(open_streamed(folder))
