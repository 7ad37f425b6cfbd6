"""Code and installations of a package that count as the same."""

import hashlib
import json
import os
import sys
from base64 import urlsafe_b64encode
from importlib.metadata import PathDistribution
from pathlib import Path
from shutil import copytree

import pytest

import aotc
import aotc_runtime
import aotc_serve
from aotc.capture import installed_packages
from aotc.compile.target_files import builtin_folder
from aotc.pipeline.code_identity import code_digests, distribution_components
from tests.running import python

RECORD = """\
../../../bin/tool,sha256=AAA,227
pkg/__init__.py,sha256=BBB,10
pkg/__pycache__/__init__.cpython-313.pyc,,
pkg/native.so,sha256=CCC,1000
pkg-1.dist-info/INSTALLER,sha256=DDD,4
pkg-1.dist-info/METADATA,sha256=EEE,90
pkg-1.dist-info/RECORD,,
"""


def parts(folder: Path, record: str, version: str = "1") -> dict[str, str]:
    place = folder / "pkg-1.dist-info"
    place.mkdir(exist_ok=True)
    (place / "METADATA").write_text(f"Name: pkg\nVersion: {version}\n")
    (place / "RECORD").write_text(record)
    return dict(
        distribution_components("pkg", installed_packages.package_of(PathDistribution(place)))
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tool,sha256=AAA", "tool,sha256=ZZZ"),
        ("INSTALLER,sha256=DDD", "INSTALLER,sha256=ZZZ"),
        ("pkg/__pycache__/__init__.cpython-313.pyc,,\n", ""),
        ("pkg-1.dist-info/RECORD,,\n", "pkg-1.dist-info/RECORD,,\npkg-1.dist-info/REQUESTED,,\n"),
    ],
)
def test_the_same_wheel_is_installed_with_another(before: str, after: str, tmp_path: Path) -> None:
    assert before in RECORD
    assert parts(tmp_path, RECORD.replace(before, after)) == parts(tmp_path, RECORD)


def test_the_order_of_files_does_not_count_and_the_version_does(tmp_path: Path) -> None:
    turned = "\n".join(reversed(RECORD.splitlines()))
    assert parts(tmp_path, turned) == parts(tmp_path, RECORD) != parts(tmp_path, RECORD, "2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pkg/__init__.py,sha256=BBB", "pkg/__init__.py,sha256=ZZZ"),
        ("pkg/native.so,sha256=CCC", "pkg/native.so,sha256=ZZZ"),
        ("METADATA,sha256=EEE", "METADATA,sha256=ZZZ"),
    ],
)
def test_other_files_are_another_package(before: str, after: str, tmp_path: Path) -> None:
    assert parts(tmp_path, RECORD.replace(before, after)) != parts(tmp_path, RECORD)


TELL = """
import json
from aotc.pipeline.code_identity import code_digests
import aotc
print(json.dumps([aotc.__path__[0], dict(code_digests())]))
"""


def told(folder: Path) -> dict[str, str]:
    """The digests that a toolchain in a folder gives of itself."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    place, digests = json.loads(python("-P", "-c", TELL, PYTHONPATH=path).stdout)
    assert Path(place) == folder / "aotc"
    assert isinstance(digests, dict)
    return digests


def test_code_is_the_same_in_a_checkout_and_installed_and_another_with_any_change(
    tmp_path: Path,
) -> None:
    """The copy is laid out as an installed wheel: the targets lie in the package."""
    for package in (aotc, aotc_runtime, aotc_serve):
        copytree(*package.__path__, tmp_path / package.__name__)
    copytree(builtin_folder(), tmp_path / "aotc" / "targets", dirs_exist_ok=True)
    assert (tmp_path / "aotc" / "targets" / "cpu-x86-64-v3.toml").is_file()
    assert told(tmp_path) == code_digests()
    (tmp_path / "aotc" / ".build.py.swp").write_text("an editor's")
    (tmp_path / "aotc" / "build.pyc").write_text("Python's")
    assert told(tmp_path) == code_digests()
    with (tmp_path / "aotc_runtime" / "base" / "digest.py").open("a") as file:
        file.write("# other code\n")
    found = told(tmp_path)
    assert found["aotc"] == code_digests()["aotc"]
    assert found["aotc-runtime"] != code_digests()["aotc-runtime"]
    (tmp_path / "aotc" / "targets" / "cpu-x86-64-v3.toml").rename(tmp_path / "aotc" / "moved.toml")
    assert told(tmp_path)["aotc"] != code_digests()["aotc"]


@pytest.fixture
def package(tmp_path: Path) -> PathDistribution:
    """A module and its RECORD, installed a while ago."""
    module, info = tmp_path / "package.py", tmp_path / "package-1.dist-info"
    info.mkdir()
    module.write_text("value = 1\n")
    digest = urlsafe_b64encode(hashlib.sha256(module.read_bytes()).digest()).rstrip(b"=").decode()
    record = info / "RECORD"
    record.write_text(f"package.py,sha256={digest},10\npackage-1.dist-info/RECORD,,\n")
    (info / "METADATA").write_text("Name: package\nVersion: 1\n")
    for path in (module, record):
        os.utime(path, (1000, 1000))
    return PathDistribution(info)


@pytest.mark.parametrize(
    ("text", "time", "changed"),
    [
        ("value = 1\n", 1000, False),
        ("value = 1\n", 2000, False),
        ("value = 2\n", 2000, True),
        ("value = 22\n", 1000, True),
        (None, 0, True),
    ],
)
def test_a_file_that_was_changed_in_place_is_a_part_of_its_own(
    package: PathDistribution, tmp_path: Path, text: str | None, time: int, changed: bool
) -> None:
    file = tmp_path / "package.py"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
        os.utime(file, (time, time))
    found = dict(distribution_components("package", installed_packages.package_of(package)))
    assert found.keys() - {"package package", "files of package package"} == (
        {"file of package package package.py"} if changed else set()
    )
    assert text is not None or found["file of package package package.py"] == "none"
