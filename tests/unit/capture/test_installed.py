"""What is read of an installed package, and when it is read again."""

from __future__ import annotations

import os
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from aotc.capture import installed_packages

RECORD = "thing/__init__.py,sha256=AAA,3\nthing/__pycache__/x.pyc,,\nthing-1.dist-info/RECORD,,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Metadata that nobody has written for a while."""
    found = tmp_path / "thing-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Name: thing\nVersion: 1\n")
    (found / "RECORD").write_text(RECORD)
    return found


def test_it_is_read_once(folder: Path) -> None:
    found = installed_packages.of(PathDistribution(folder))
    assert installed_packages.of(PathDistribution(folder)) is found
    assert (found.name, found.version) == ("thing", "1")
    assert found.modules == {"thing"}
    assert found.hashed == (("thing/__init__.py", "AAA", "3"),)
    assert found.record == str(folder / "RECORD")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("METADATA", "Name: thing\nVersion: 2\n"),
        ("RECORD", RECORD.replace("AAA", "BBB")),
        ("top_level.txt", "other\n"),
    ],
)
def test_what_is_written_anew_is_read_again_whatever_its_time(
    folder: Path, file: str, text: str
) -> None:
    """An installer may keep sizes and the times of modification."""
    before = installed_packages.of(PathDistribution(folder))
    old = (before.version, before.digest, before.modules)
    path = folder / file
    times = path.stat() if path.exists() else folder.stat()
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = installed_packages.of(PathDistribution(folder))
    assert (found.version, found.digest, found.modules) != old


def test_metadata_of_another_kind_are_read_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "thing.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: thing\nVersion: 1\n")
    assert installed_packages.of(PathDistribution(folder)).version == "1"
    (folder / "PKG-INFO").write_text("Name: thing\nVersion: 2\n")
    assert installed_packages.of(PathDistribution(folder)).version == "2"
