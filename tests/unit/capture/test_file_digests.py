"""Digests of files that are asked for more than once, and files that change meanwhile."""

import os
from pathlib import Path
from typing import Self

import pytest

from aotc.base.errors import CaptureError
from aotc.capture import file_digests
from aotc.capture.file_digests import digest_of, find_changes, read_source
from aotc.config.build_manifest import SourceFile
from aotc_runtime.base.digest import sha256
from aotc_runtime.system.regular_files import open_regular
from tests.refusals import error_of


def test_digest_of_a_file_that_was_rewritten_is_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"first")
    before = path.stat()
    assert digest_of(path) == sha256(b"first")
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digest_of(path) == sha256(b"other")


def test_what_is_no_file_has_no_digest(tmp_path: Path) -> None:
    error_of(FileNotFoundError, digest_of, tmp_path / "file")
    error_of(IsADirectoryError, digest_of, tmp_path)


class Written:
    """A file that somebody writes while it is read."""

    def __init__(self, path: Path, becomes: bytes) -> None:
        self._path, self._becomes, self._file = path, becomes, open_regular(path)
        self.fileno = self._file.fileno

    def read(self) -> bytes:
        data = self._file.read()
        self._path.write_bytes(self._becomes)
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@pytest.mark.parametrize("becomes", [b"weightS", b"weights and more", b""])
def test_changing_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: bytes) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"weights")
    os.utime(path, (0, 0))
    monkeypatch.setattr(file_digests, "open_regular", lambda path: Written(path, becomes))
    (finding,) = error_of(CaptureError, read_source, SourceFile("w", path), "weights.w").findings
    assert (finding.code, finding.where) == ("AOTC-E840", "weights.w")


def test_files_of_which_nothing_is_known_have_not_changed() -> None:
    first = {"a.py": "sha256:1", "b.py": "sha256:2"}
    found = list(
        find_changes(first, [("a.py", "sha256:1"), ("b.py", "sha256:3"), ("c.py", "sha256:4")])
    )
    assert [(f.code, f.where) for f in found] == [("AOTC-E840", "b.py")]
