"""Layouts in one folder keep one copy of the weights they share, and of nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from aotc.bundle.write.bundle_writer import Blob, Form, TargetParts, assemble, pack
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import look_into
from aotc_runtime.verification.bundle_contents import references
from aotc_runtime.verification.bundle_examination import read_unverified

type Bundle = tuple[Path, Path]


@pytest.fixture
def write(digits_bundle: Bundle) -> Callable[[Path, str], list[Path]]:
    """Write a version of a bundle as a layout; the files of its weights."""
    contents, _ = read_unverified(look_into(digits_bundle[0]))
    (manifest,) = contents.manifests.values()
    blobs = [
        Blob(bytes(contents.blobs[digest]), media_type)
        for digest, (media_type, _) in references(manifest).items()
    ]

    def written(path: Path, version: str) -> list[Path]:
        changed = msgspec.structs.replace(manifest, version=version)
        pack(path, Form.LAYOUT, assemble([TargetParts(changed, blobs)]))
        read_unverified(look_into(path))  # every digest in it
        return [
            path / "blobs" / "sha256" / blob.digest[7:]
            for blob in blobs
            if blob.media_type == oci_layout.WEIGHTS_TYPE
        ]

    return written


def inode(file: Path) -> int:
    return file.lstat().st_ino


def test_ten_versions_keep_one_copy_of_their_weights(
    write: Callable[[Path, str], list[Path]], tmp_path: Path
) -> None:
    versions = [write(tmp_path / f"v{number}", f"{number}.0.0") for number in range(10)]
    assert versions[0]
    for files in zip(*versions, strict=True):
        assert len({inode(file) for file in files}) == 1
    others = {inode(tmp_path / f"v{number}" / "index.json") for number in range(10)}
    assert len(others) == 10
    shutil.rmtree(tmp_path / "v0")
    read_unverified(look_into(tmp_path / "v9"))


def test_a_layout_that_is_replaced_keeps_its_copy(
    write: Callable[[Path, str], list[Path]], tmp_path: Path
) -> None:
    before = [inode(file) for file in write(tmp_path / "live", "1.0.0")]
    assert [inode(file) for file in write(tmp_path / "live", "2.0.0")] == before


def changed(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def writable(file: Path) -> None:
    file.chmod(0o666)


def linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def given_away(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(file, 12345, -1)


@pytest.mark.parametrize("spoil", [changed, cut, writable, linked, given_away])
def test_a_file_that_is_not_like_a_new_one_is_not_shared(
    spoil: Callable[[Path], None], write: Callable[[Path, str], list[Path]], tmp_path: Path
) -> None:
    first = write(tmp_path / "v1", "1.0.0")
    for file in first:
        spoil(file)
    second = write(tmp_path / "v2", "2.0.0")
    for one, other in zip(first, second, strict=True):
        assert not one.samefile(other)


def test_what_another_process_is_writing_is_not_shared(
    write: Callable[[Path, str], list[Path]], tmp_path: Path
) -> None:
    first = write(tmp_path / "v1", "1.0.0")
    (tmp_path / "v1").rename(tmp_path / ".v1.abcdefgh.part")
    second = write(tmp_path / "v2", "2.0.0")
    held = tmp_path / ".v1.abcdefgh.part"
    assert [inode(held / file.relative_to(tmp_path / "v1")) for file in first] != list(
        map(inode, second)
    )
