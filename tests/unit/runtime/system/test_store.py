"""Opening a bundle; what is refused is in tests/hostile."""

import errno
import hashlib
import io
import os
import sys
import tarfile
from mmap import mmap
from pathlib import Path

import pytest

from aotc_runtime.base.errors import BundleFormatError
from aotc_runtime.system import bundle_files, layout_folder
from aotc_runtime.system.bundle_files import map_file, open_bundle

from ..samples import refused

HEX = "ab" * 32
MEMBERS = {
    "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
    "index.json": b"{}",
    f"blobs/sha256/{HEX}": b"abc",
}


def as_archive(folder: Path) -> Path:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as file:
        for name, data in MEMBERS.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    path = folder / "x.aotb"
    path.write_bytes(stream.getvalue())
    return path


def as_folder(folder: Path) -> Path:
    for name, data in MEMBERS.items():
        path = folder / "layout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "layout"


@pytest.mark.parametrize("write", [as_archive, as_folder])
def test_both_forms_read_the_same(write: object, tmp_path: Path) -> None:
    path = write(tmp_path)  # type: ignore[operator]
    for spelled in (path, str(path)):
        bundle = open_bundle(spelled)
        assert bundle.name == str(path)
        assert bytes(bundle.file("index.json") or b"") == b"{}"
        assert bytes(bundle.blob(f"sha256:{HEX}") or b"") == b"abc"
        assert bundle.digests() == {f"sha256:{HEX}"}
        assert bundle.file("other") is None and bundle.blob("sha256:" + "0" * 64) is None


@pytest.mark.parametrize("write", [as_archive, as_folder])
def test_what_is_read_cannot_be_written_to(write: object, tmp_path: Path) -> None:
    view = open_bundle(write(tmp_path)).file("index.json")  # type: ignore[operator]
    assert view is not None and view.readonly


def test_an_empty_blob_can_be_read(tmp_path: Path) -> None:
    folder = as_folder(tmp_path)
    (folder / "blobs" / "sha256" / HEX).write_bytes(b"")
    assert bytes(open_bundle(folder).blob(f"sha256:{HEX}") or b"x") == b"x"
    assert open_bundle(folder).digests() == {f"sha256:{HEX}"}


@pytest.mark.skipif(sys.version_info < (3, 13), reason="maps keep descriptors before 3.13")
def test_no_file_stays_open(tmp_path: Path) -> None:
    """A folder may hold more blobs than a process may hold open files."""
    path = as_folder(tmp_path)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    bundle = open_bundle(path)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
    assert bytes(bundle.file("index.json") or b"") == b"{}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_bundle_without_permission_is_refused(tmp_path: Path) -> None:
    path = as_archive(tmp_path)
    path.chmod(0)
    with refused("AOTC-E108"):
        open_bundle(path)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", b"d.aotb", 3])
def test_what_is_no_path_is_refused(path: object) -> None:
    with refused("AOTC-E108"):
        open_bundle(path)  # type: ignore[arg-type]


def a_layout(folder: Path, blob: bytes) -> str:
    """A layout folder whose index is the digest of its one blob."""
    hexadecimal = hashlib.sha256(blob).hexdigest()
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (folder / "oci-layout").write_bytes(b"{}")
    (folder / "index.json").write_text(hexadecimal)
    (blobs / hexadecimal).write_bytes(blob)
    return f"sha256:{hexadecimal}"


@pytest.mark.parametrize("after", [1, 2, 3])
def test_moved_folder_reread(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_layout(tmp_path / "bundle", b"old")
    digest = a_layout(tmp_path / "other", b"new")
    mapped: list[Path] = []

    def map_and_replace(path: Path, kind: type[mmap]) -> memoryview:
        mapped.append(path)
        data = map_file(path, kind)
        if len(mapped) == after:
            (tmp_path / "bundle").rename(tmp_path / "replaced")
            (tmp_path / "other").rename(tmp_path / "bundle")
        return data

    monkeypatch.setattr(bundle_files, "map_file", map_and_replace)
    bundle = open_bundle(tmp_path / "bundle")
    assert bundle.digests() == {digest}
    index = bundle.file("index.json")
    assert index is not None and f"sha256:{bytes(index).decode()}" == digest


def test_unstable_folder_is_last_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = a_layout(tmp_path / "bundle", b"old")
    read: list[Path] = []

    def map_and_touch(path: Path, kind: type[mmap]) -> memoryview:
        read.append(path)
        (tmp_path / "bundle").chmod(0o700 | len(read) % 2)
        return map_file(path, kind)

    monkeypatch.setattr(bundle_files, "map_file", map_and_touch)
    assert open_bundle(tmp_path / "bundle").digests() == {digest}
    assert len(read) == 3 * layout_folder.READS_MAX


def test_unlistable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is root can list everything, so the system's answer is made here."""
    a_layout(tmp_path / "bundle", b"old")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if os.fspath(path).endswith("blobs"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(BundleFormatError) as refused:
        open_bundle(tmp_path / "bundle")
    assert (refused.value.code, refused.value.findings[0].found) == (
        "AOTC-E108",
        "Permission denied",
    )


@pytest.mark.parametrize(("why", "has_room"), [(errno.EACCES, False), (errno.ENOMEM, True)])
def test_only_where_no_page_can_be_mapped_there_are_too_many_files(
    why: int, has_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file itself is why: too large, or nobody's to read."""

    def fails(*_: object) -> memoryview:
        raise OSError(why, "no map")

    monkeypatch.setattr(layout_folder, "_maps_one_page", lambda: has_room)
    with pytest.raises(OSError, match="no map"):
        layout_folder._map_blob(str(tmp_path / "file"), fails, "shown", 3)
