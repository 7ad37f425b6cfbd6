"""What RECORD says of a package counts, and so do files that are not as it says."""

from __future__ import annotations

import hashlib
import os
from base64 import urlsafe_b64encode
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from aotc.capture import installed_packages
from aotc.pipeline.cache.cache_keys import Parts
from aotc.pipeline.tasks import code_identity


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


def parts(package: PathDistribution) -> Parts:
    return dict(code_identity.of_distribution("package", installed_packages.of(package)))


def test_as_installed_it_is_two_parts(package: PathDistribution) -> None:
    assert parts(package).keys() == {"package package", "files of package package"}


def test_a_file_that_was_only_touched_is_as_it_was(
    package: PathDistribution, tmp_path: Path
) -> None:
    before = parts(package)
    os.utime(tmp_path / "package.py")
    assert parts(package) == before


@pytest.mark.parametrize(("text", "time"), [("value = 2\n", 2000), ("value = 22\n", 1000)])
def test_a_changed_file_is_a_part_of_its_own(
    package: PathDistribution, tmp_path: Path, text: str, time: int
) -> None:
    (tmp_path / "package.py").write_text(text)
    os.utime(tmp_path / "package.py", (time, time))
    assert "file of package package package.py" in parts(package)


def test_a_file_that_was_removed_is_a_part(package: PathDistribution, tmp_path: Path) -> None:
    (tmp_path / "package.py").unlink()
    assert parts(package)["file of package package package.py"] == "none"
