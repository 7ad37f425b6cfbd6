"""Places that a command line names: no file to read, or none to write, is said at once."""

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from aotc.base.errors import UsageError
from aotc.commands.compat.host_matches import read_hosts
from tests.conftest import Run, manifest_of

HANGS_SECONDS = 30
"""A command that waits for a pipe is let go after so long, and then says something else."""

READ: list[tuple[str, int, str, tuple[int, str] | None]] = [
    ("build PLACE", 3, "AOTC-E801", (3, "AOTC-E801")),
    ("build m.toml --tuning PLACE", 2, "AOTC-E030", (2, "AOTC-E030")),
    ("build m.toml --key PLACE", 2, "AOTC-E006", (2, "AOTC-E006")),
    ("keygen --passphrase-file PLACE k", 2, "AOTC-E008", None),
    (
        "build m.toml --cache c --remote-cache file:///none --cache-trust PLACE",
        2,
        "AOTC-E006",
        None,
    ),
    ("diff PLACE b", 5, "AOTC-E108", None),
    ("trust show PLACE", 5, "AOTC-E308", (5, "AOTC-E309")),
    ("trust init --name n --key PLACE", 2, "AOTC-E006", (2, "AOTC-E006")),
    ("profiles suggest m.toml --traffic PLACE", 2, "AOTC-E040", None),
    ("reproduce b --source . --tuning PLACE", 2, "AOTC-E030", (2, "AOTC-E030")),
]
"""Command lines, how they are refused that name no file, and a file that is too large, unless that
is read piece by piece."""

MANIFEST = manifest_of("""
name = "tiny"
[dimensions.n]
range = [1, 8]
profiles = [1]
[entry_points.f]
function = "tiny:f"
inputs.x = { shape = ["n"], dtype = "float32" }
""")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Path]]:
    (tmp_path / "m.toml").write_text(MANIFEST)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)  # of which nothing is on the disk

    def let_go() -> None:
        os.close(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK))

    timer = Timer(HANGS_SECONDS, let_go)
    timer.start()
    yield {
        "pipe": tmp_path / "pipe",
        "regular file": Path("/dev/null"),
        "Is a directory": tmp_path / "folder",
        "No such file": tmp_path / "gone",
    }
    timer.cancel()


@pytest.mark.parametrize(("arguments", "exit_code", "code", "large"), READ)
def test_what_is_no_file_to_read_is_refused_at_once(
    refused: Run,
    tmp_path: Path,
    places: dict[str, Path],
    arguments: str,
    exit_code: int,
    code: str,
    large: tuple[int, str] | None,
) -> None:
    def named(place: Path) -> list[str]:
        return [str(place) if each == "PLACE" else each for each in arguments.split()]

    for found, place in places.items():
        if code == "AOTC-E108" and place.is_dir():
            continue  # a bundle may be a folder
        assert found in refused(named(place), exit_code, code).stderr
    if large:
        refused(named(tmp_path / "large"), *large)


def test_of_hosts_every_file_that_is_none_is_named(places: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_hosts([*places.values(), tmp_path / "large"])
    found = [finding.found for finding in refused.value.findings]
    assert all(part in text for part, text in zip(places, found, strict=False))
    assert found[-1] == "a larger file"


WRITTEN = [
    ("--sbom gone/x.json", "AOTC-E003"),
    ("--sbom folder", "AOTC-E003"),
    ("--sbom -", "AOTC-E003"),
    (f"--sbom {'a' * 250}", "AOTC-E003"),
    ("--sbom pipe", "AOTC-E004"),
    ("--sbom m.toml", "AOTC-E004"),
    ("--tune --save-tuning gone/x.json", "AOTC-E003"),
    ("--tune --save-tuning folder", "AOTC-E003"),
    ("--tune --save-tuning m.toml", "AOTC-E004"),
    ("-o gone/b.aotb", "AOTC-E003"),
    ("-o -", "AOTC-E003"),
    ("-o folder", "AOTC-E003"),
    (f"-o {'a' * 250}", "AOTC-E003"),
    ("-o m.toml", "AOTC-E004"),
    (f"--layout {'a' * 250}", "AOTC-E003"),
    ("--layout .", "AOTC-E004"),
]


@pytest.mark.parametrize(("arguments", "code"), WRITTEN)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_built(
    refused: Run, places: dict[str, Path], tmp_path: Path, arguments: str, code: str
) -> None:
    """There is no program: beginning to build would be refused otherwise."""
    before = sorted(tmp_path.iterdir())
    refused(["build", "m.toml", *arguments.split()], 2, code)
    assert sorted(tmp_path.iterdir()) == before


def test_drafted_manifest_needs_folder_and_name(refused: Run, places: dict[str, Path]) -> None:
    done = refused(["init", "tiny:f", "-o", "gone/m.toml"], 2, "AOTC-E003")
    assert "No such file or directory" in done.stderr
    assert "a directory" in refused(["init", "tiny:f", "-o", "folder"], 2, "AOTC-E084").stderr
