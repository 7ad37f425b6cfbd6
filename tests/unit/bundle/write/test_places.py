"""A result replaces an older result, and nothing else."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aotc.base.errors import UsageError
from aotc.bundle.write.output_paths import (
    BUNDLE,
    NPZ,
    Kind,
    require_file_place,
    require_folder_place,
)
from aotc.report.array_files import write_npz
from tests.refusals import error_of


def private_key(path: Path) -> None:
    path.write_text("-----BEGIN PRIVATE KEY-----\n", "utf-8")


def document(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<years-of-work/>")


def other_tar(path: Path) -> None:
    (path.parent / "thesis.tex").write_text("years of work")
    made = shutil.make_archive(str(path), "tar", path.parent, "thesis.tex")
    Path(made).rename(path)


def arrays(path: Path) -> None:
    write_npz(path, {"y": np.zeros(3)})


def no_arrays(path: Path) -> None:
    write_npz(path, {})


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_key(path: Path) -> None:
    private_key(path.parent / "ci.key")
    path.symlink_to(path.parent / "ci.key")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        *((make, BUNDLE) for make in (private_key, other_tar, arrays, pipe, link_to_a_key)),
        *((make, NPZ) for make in (private_key, document, other_tar, pipe, link_to_a_key)),
    ],
)
def test_other_files_are_kept(tmp_path: Path, make: Callable[[Path], None], kind: Kind) -> None:
    path = tmp_path / "place"
    make(path)
    caught = error_of(UsageError, require_file_place, path, kind)
    assert caught.code == "AOTC-E004"
    assert kind.name in caught.findings[0].expected


@pytest.mark.parametrize("make", [arrays, no_arrays, Path.touch, lambda path: None])
def test_arrays_may_replace_arrays_or_nothing(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "y.npz")
    require_file_place(tmp_path / "y.npz", NPZ)


def test_bundle_is_replaced_by_bundle_not_arrays(digits_bundle: tuple[Path, Path]) -> None:
    require_file_place(digits_bundle[0], BUNDLE)
    assert error_of(UsageError, require_file_place, digits_bundle[0], NPZ).code == "AOTC-E004"


def test_arrays_are_not_written_over_what_came_to_lie_there_meanwhile(tmp_path: Path) -> None:
    private_key(tmp_path / "ci.key")
    caught = error_of(UsageError, write_npz, tmp_path / "ci.key", {"y": np.zeros(3)})
    assert caught.code == "AOTC-E004"


@pytest.mark.parametrize("place", ["missing/file", "file/file", "."])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    assert error_of(UsageError, require_file_place, tmp_path / place, BUNDLE).code == "AOTC-E003"


def test_a_folder_with_anything_else_in_it_is_never_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    require_folder_place(home)
    (home / "thesis.tex").write_bytes(b"years of work")
    (tmp_path / "file").write_bytes(b"a file")
    for place in (home, tmp_path / "file"):
        assert error_of(UsageError, require_folder_place, place).code == "AOTC-E004"
    (home / "oci-layout").touch()
    require_folder_place(home)
    require_folder_place(tmp_path / "new")
