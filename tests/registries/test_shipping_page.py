"""The walk of docs/guides/push-and-pull.md works as it stands, from an empty folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.documented import code_of, in_shell
from tests.registries.docker_registry import MARKS, running
from tests.registries.oci_server import OciServer

PAGE = ROOT / "docs" / "guides" / "push-and-pull.md"


@pytest.fixture
def own() -> Iterator[str]:
    server = OciServer()
    yield server.address
    server.close()


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[str]:
    with running(tmp_path / "registry") as address:
        yield address


def walk(address: str, folder: Path, cache: Path) -> str:
    """Return what it prints."""
    folder.mkdir()
    (folder / "manifests").symlink_to(ROOT / "manifests")
    (folder / "serve.py").write_text(code_of("python", PAGE), "utf-8")
    commands = code_of("sh", PAGE).replace("registry.example.org", address)
    return in_shell(commands, folder, DOCKER_CONFIG=str(folder), AOTC_CACHE=str(cache))


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq, which the walk uses")
def test_the_walk_works_as_it_stands(own: str, tmp_path: Path, examples_cache: Path) -> None:
    said = walk(own, tmp_path / "walk", examples_cache)
    assert "if its weights are the signed ones" in said
    assert "AOTC-E326" in said


@pytest.mark.registry
@MARKS[1]
def test_the_walk_works_at_debians(debian: str, tmp_path: Path, examples_cache: Path) -> None:
    walk(debian, tmp_path / "walk", examples_cache)
