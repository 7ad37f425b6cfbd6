"""`aotc store` and `aotc pull --store`."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.commands.registry.bundle_push import push
from aotc_runtime.system.streamed_bundle import look_into
from aotc_serve.store import Store
from tests.registries.conftest import LAYERS, Connect
from tests.registries.oci_server import OciServer
from tests.registries.test_references_in_commands import aotc, document


@pytest.fixture
def filled(server: OciServer, connect: Connect, tmp_path: Path) -> Path:
    """A store with one bundle, fetched into it alone."""
    with connect("models/layers") as there:
        place = push(look_into(LAYERS), there, None, 0.0).place
    folder = tmp_path / "store"
    found = document("pull", place, "--store", folder)
    assert found["root_digest"] == place.digest and found["bundle"] == str(folder)
    return folder


def test_what_is_in_a_store_is_listed(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root,) = [each.root.digest for each in Store(filled).bundles()]
    found = document("store", "ls", "--store", filled)
    assert [each["root_digest"] for each in found["bundles"]] == [root]
    assert found["bytes"] == Store(filled).size_bytes() > 0
    assert root in aotc("store", "ls", "--store", filled).stdout
    monkeypatch.setenv("AOTC_STORE", str(filled))
    assert document("store", "ls") == found


def test_a_store_is_pruned_to_a_size(filled: Path) -> None:
    kept = document("store", "prune", "--store", filled, "--limit", "1 GiB")
    assert (kept["removed"], kept["bytes"]) == ([], Store(filled).size_bytes())
    gone = document("store", "prune", "--store", filled, "--limit", "1 KiB")
    assert (len(gone["removed"]), gone["bytes"]) == (1, 0)
    assert aotc("store", "prune", "--store", filled, "--limit", "much").exit_code == 2


def test_damage_is_removed(filled: Path) -> None:
    assert document("store", "verify", "--store", filled)["removed"] == []
    path = next((filled / "blobs" / "sha256").iterdir())
    path.chmod(0o644)
    path.write_bytes(b"other")
    found = document("store", "verify", "--store", filled)
    assert found["removed"] == [f"sha256:{path.name}"]


def test_a_file_is_written_out_of_a_store_that_keeps_its_own(
    filled: Path, server: OciServer, tmp_path: Path
) -> None:
    place = f"oci://{server.address}/models/layers:1.0.0"
    before = server.count("GET", "/blobs/")
    document("pull", place, "--store", filled, "--layout", tmp_path / "layout")
    documents = server.count("GET", "/blobs/") - before
    document("pull", place, "--store", filled, "-o", tmp_path / "layers.aotb")
    assert server.count("GET", "/blobs/") == before + 2 * documents, "documents alone, each time"
    blob = next((tmp_path / "layout" / "blobs" / "sha256").iterdir())
    blob.chmod(0o644)
    blob.write_bytes(b"other")
    assert document("store", "verify", "--store", filled)["removed"] == []


def test_where_a_pull_goes_has_to_be_said(filled: Path, server: OciServer) -> None:
    place = f"oci://{server.address}/models/layers:1.0.0"
    assert aotc("pull", place).exit_code == 2
    assert aotc("pull", place, "-o", "a", "--layout", "b").exit_code == 2
