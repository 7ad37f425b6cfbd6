"""Installed packages: what is read of them, when it is read again, and which were imported."""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PathDistribution
from pathlib import Path
from types import ModuleType

import pytest
from unit.runtime.samples import manifest

from aotc.capture import installed_packages
from aotc.capture.installed_packages import imported_packages, owners, packages_behind
from aotc_runtime.schema.bundle_manifest import BundleManifest


def installed(folder: Path, name: str, **files: str) -> None:
    """Metadata of a distribution; its files are not there."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, text in files.items():
        (metadata / file.replace("_txt", ".txt")).write_text(text)


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        ({"RECORD": "thing/__init__.py,sha256=x,3\n"}, ["thing"]),
        ({"RECORD": "thing.py,,\n"}, ["thing"]),
        ({"RECORD": f"thing{EXTENSION_SUFFIXES[0]},,\n"}, ["thing"]),
        ({"RECORD": '"thing/a,b.txt",,\n'}, ["thing"]),
        ({"RECORD": "../../../bin/thing,,\nthing-1.0.dist-info/RECORD,,\n"}, []),
        ({"RECORD": "readme\n__editable__.thing.pth,,\n"}, []),
        ({"RECORD": "one/a.py,,\ntwo/b.py,,\n"}, ["one", "two"]),
        ({"RECORD": "hidden/a.py,,\n", "top_level_txt": "thing\nother\n"}, ["other", "thing"]),
        ({"RECORD": "thing.py,,\n", "top_level_txt": ""}, ["thing"]),
        ({"installed-files.txt": "../thing/a.py\n"}, []),
        ({}, []),
    ],
)
def test_a_package_owns_the_modules_that_its_metadata_names(
    files: dict[str, str], modules: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "The_Thing", **files)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hidden", "one", "other", "readme", "thing", "two"):
        assert ("The_Thing" in owners({name, "sys"})) == (name in modules), name


def test_parts_of_packages_count_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "The_Thing", RECORD="thing/part.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "the-thing" not in imported_packages()
    monkeypatch.setitem(sys.modules, "thing.part", ModuleType("thing.part"))
    assert imported_packages()["the-thing"].version == "1.0"


def needing(tools: dict[str, str], plugin: str, *versions: str) -> BundleManifest:
    device = {"kinds": ["d"], "memory_bytes": 0, "plugin": plugin, "accepts_plugin": [*versions]}
    return manifest(
        target={"platform": "an-engine"},
        requires={"platform": "an-engine", "device": device},
        built_with={"tools": tools},
    )


def test_executable_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a_compiler", "its_runtime", "another"):
        installed(tmp_path, name, RECORD=f"{name}.py,sha256={name},1\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = packages_behind(
        [
            needing({"a_compiler": "1.0", "missing": "1.0"}, "its-runtime", "0.9", "1.0"),
            needing({"another": "2.0"}, "missing", "1.0"),
            manifest(),
        ]
    )
    assert {name: package.version for name, package in found.items()} == {
        "a-compiler": "1.0",
        "its-runtime": "1.0",
    }
    assert len({package.files for package in found.values()}) == 2


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
    found = installed_packages.package_of(PathDistribution(folder))
    assert installed_packages.package_of(PathDistribution(folder)) is found
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
def test_rewritten_files_are_read_again(folder: Path, file: str, text: str) -> None:
    """An installer may keep sizes and the times of modification."""
    before = installed_packages.package_of(PathDistribution(folder))
    old = (before.version, before.digest, before.modules)
    path = folder / file
    times = path.stat() if path.exists() else folder.stat()
    path.write_text(text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = installed_packages.package_of(PathDistribution(folder))
    assert (found.version, found.digest, found.modules) != old


def test_metadata_of_another_kind_are_read_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "thing.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: thing\nVersion: 1\n")
    assert installed_packages.package_of(PathDistribution(folder)).version == "1"
    (folder / "PKG-INFO").write_text("Name: thing\nVersion: 2\n")
    assert installed_packages.package_of(PathDistribution(folder)).version == "2"
