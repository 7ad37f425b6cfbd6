"""Entries of a cache lie in a repository of a registry. What registries ask of their clients:
tests/registries.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.commands.remote_cache.bounded_reads import OutageError
from aotc.commands.remote_cache.oci_blobs import OciBlobs
from aotc.commands.remote_cache.remote_cache_service import blobs_at
from tests.registries.docker_registry import docker_registry, running
from tests.registries.oci_server import OciServer

NAME, OTHER = "ab" * 32, "cd" * 32
REPO = "team/cache"
DATA = bytes(range(256)) * 2000


@pytest.fixture
def server() -> Iterator[OciServer]:
    started = OciServer()
    yield started
    started.close()


def blobs_of(server: OciServer, secret: str = "") -> OciBlobs:
    return OciBlobs(f"oci://{secret}{server.address}/{REPO}")


def works(blobs: OciBlobs) -> None:
    assert blobs.read(NAME, 10**6) is None
    blobs.write(NAME, DATA)
    assert blobs.read(NAME, 10**6) == DATA
    blobs.write(NAME, b"newer")
    blobs.write(OTHER, b"newer")
    assert blobs.read(NAME, 10**6) == b"newer" == blobs.read(OTHER, 10**6)
    blobs.write(NAME, DATA)
    with pytest.raises(OutageError, match="more than 1000 bytes"):
        blobs.read(NAME, 1000)


@pytest.mark.parametrize("password", ["", "me:secret"])
def test_entries_are_written_and_read(password: str, server: OciServer) -> None:
    server.password = password
    blobs = blobs_at(f"oci://{password and f'{password}@'}{server.address}/{REPO}")
    assert isinstance(blobs, OciBlobs)
    works(blobs)
    asked_in_vain = bool(password)
    assert server.count("POST", "/uploads/") == 3 + asked_in_vain, "each blob is sent once"


def test_a_registry_that_does_not_know_us_is_an_outage(server: OciServer) -> None:
    server.password = "me:secret"
    blobs = blobs_of(server, "me:wrong@")
    with pytest.raises(OutageError, match="401"):
        blobs.read(NAME, 1000)
    with pytest.raises(OutageError, match="401"):
        blobs.write(NAME, DATA)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"layers": []}',
        b'{"layers": [{"digest": "../../../other/blobs/x", "size": 1}]}',
    ],
)
def test_a_tag_that_is_no_entry_is_an_empty_one(manifest: bytes, server: OciServer) -> None:
    server.manifests[REPO, NAME] = (manifest, "application/vnd.oci.image.manifest.v1+json")
    assert blobs_of(server).read(NAME, 1000) == b""


@pytest.mark.parametrize("step", ["POST /uploads/", "PUT /uploads/", "PUT /manifests/"])
def test_a_push_that_fails_at_any_step_is_an_outage(step: str, server: OciServer) -> None:
    method, _, place = step.partition(" ")

    def full(request: object) -> bool:
        assert hasattr(request, "answer")
        is_it = server.asked[-1].method == method and place in server.asked[-1].path
        if is_it:
            request.answer(507)
        return is_it

    server.faults.append(full)
    with pytest.raises(OutageError, match="HTTP 507"):
        blobs_of(server).write(NAME, DATA)


def test_a_layer_that_was_collected_is_no_entry(server: OciServer) -> None:
    blobs = blobs_of(server)
    blobs.write(NAME, DATA)
    manifest = json.loads(server.manifests[REPO, NAME][0])
    del server.blobs[REPO, manifest["layers"][0]["digest"]]
    assert blobs.read(NAME, 10**6) is None


@pytest.mark.parametrize("url", ["oci://host", "oci:///x", "oci://host/Upper", "oci://host/a b"])
def test_a_url_without_a_repository_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="AOTC-E062"):
        blobs_at(url)


@docker_registry
def test_the_registry_of_the_distribution_project_takes_and_gives_entries(tmp_path: Path) -> None:
    with running(tmp_path) as address:
        works(OciBlobs(f"oci://{address}/{REPO}"))
