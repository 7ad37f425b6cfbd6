"""Entries of a cache lie in a repository of a registry, whatever it asks for before it is used."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.commands.remote_cache.oci_blobs import OciBlobs
from aotc.commands.remote_cache.remote_cache_service import blobs_at
from aotc.pipeline.cache.bounded_calls import OutageError, Pace
from tests.registries.docker_registry import docker_registry, running

NAME, OTHER = "ab" * 32, "cd" * 32
DATA = bytes(range(256)) * 2000

Start = Callable[[str], str]


@pytest.fixture
def start(serve: Callable[[str, Path, str], str], tmp_path: Path) -> Start:
    """A mode of oci_registry.py to HOST:PORT of a registry."""
    return lambda mode: serve("oci_registry.py", tmp_path, mode)


def works(blobs: OciBlobs) -> None:
    assert blobs.read(NAME, 10**6, Pace()) is None
    blobs.write(NAME, DATA, Pace())
    assert blobs.read(NAME, 10**6, Pace()) == DATA
    blobs.write(NAME, b"newer", Pace())
    blobs.write(OTHER, b"newer", Pace())
    assert blobs.read(NAME, 10**6, Pace()) == b"newer" == blobs.read(OTHER, 10**6, Pace())
    blobs.write(NAME, DATA, Pace())
    with pytest.raises(OutageError, match="more than 1000 bytes"):
        blobs.read(NAME, 1000, Pace())


@pytest.mark.parametrize("mode", ["open", "basic", "token", "elsewhere"])
def test_entries_are_written_and_read(mode: str, start: Start) -> None:
    secret = "" if mode == "open" else "me:secret@"
    blobs = blobs_at(f"oci://{secret}{start(mode)}/team/cache")
    assert isinstance(blobs, OciBlobs)
    works(blobs)


@pytest.mark.parametrize("mode", ["basic", "token"])
@pytest.mark.parametrize("secret", ["", "me:wrong@"])
def test_a_registry_that_does_not_know_us_is_an_outage(
    mode: str, secret: str, start: Start
) -> None:
    blobs = OciBlobs(f"oci://{secret}{start(mode)}/team/cache")
    with pytest.raises(OutageError, match="401"):
        blobs.read(NAME, 1000, Pace())
    with pytest.raises(OutageError, match="401"):
        blobs.write(NAME, DATA, Pace())


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b'{"layers": []}',
        b'{"layers": [{"digest": "../../../other/blobs/x", "size": 1}]}',
    ],
)
def test_a_tag_that_is_no_entry_is_an_empty_one(
    manifest: bytes, start: Start, tmp_path: Path
) -> None:
    blobs = OciBlobs(f"oci://{start('open')}/team/cache")
    (tmp_path / f"tag-{NAME}").write_bytes(manifest)
    assert blobs.read(NAME, 1000, Pace()) == b""


@pytest.mark.parametrize("mode", ["no upload", "no place", "no blob", "no tag"])
def test_a_push_that_fails_at_any_step_is_an_outage(mode: str, start: Start) -> None:
    blobs = OciBlobs(f"oci://{start(mode)}/team/cache")
    with pytest.raises(OutageError, match=r"HTTP 202" if mode == "no place" else r"HTTP 507"):
        blobs.write(NAME, DATA, Pace())


def test_what_is_there_is_not_uploaded_again(start: Start, tmp_path: Path) -> None:
    blobs = OciBlobs(f"oci://{start('open')}/team/cache")
    for name in (NAME, OTHER):
        blobs.write(name, DATA, Pace())
    assert (tmp_path / "uploads").read_bytes() == b"..", "the data, and the empty configuration"


def test_a_registry_that_sends_readers_to_a_file_of_theirs_is_an_outage(start: Start) -> None:
    blobs = OciBlobs(f"oci://{start('local')}/team/cache")
    blobs.write(NAME, DATA, Pace())
    with pytest.raises(OutageError, match="sent to file:"):
        blobs.read(NAME, 10**6, Pace())


def test_a_token_server_elsewhere_that_has_tls_is_given_the_password(
    start: Start,
    serve: Callable[[str, Path, str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "realm").write_text(f"https://{serve('token_server.py', tmp_path, '')}/token")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tokens.pem"))
    blobs = OciBlobs(f"oci://me:secret@{start('tokens')}/team/cache")
    works(blobs)


def test_a_token_server_that_gives_something_else_is_an_outage(start: Start) -> None:
    blobs = OciBlobs(f"oci://me:secret@{start('no token')}/team/cache")
    with pytest.raises(OutageError, match="gave no token"):
        blobs.read(NAME, 1000, Pace())


def test_a_layer_that_was_collected_is_no_entry(start: Start, tmp_path: Path) -> None:
    blobs = OciBlobs(f"oci://{start('open')}/team/cache")
    blobs.write(NAME, DATA, Pace())
    manifest = json.loads((tmp_path / f"tag-{NAME}").read_bytes())
    (tmp_path / manifest["layers"][0]["digest"]).unlink()
    assert blobs.read(NAME, 10**6, Pace()) is None


@pytest.mark.parametrize("url", ["oci://host", "oci:///x", "oci://host/Upper", "oci://host/a b"])
def test_a_url_without_a_repository_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        blobs_at(url)
    assert caught.value.code == "AOTC-E062"


@pytest.fixture
def with_tokens(
    serve: Callable[[str, Path, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """HOST:PORT of a registry that checks the tokens of a server elsewhere, which has TLS."""
    place = serve("token_server.py", tmp_path, "")
    certificate = str(tmp_path / "tokens.pem")
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    token = {
        "realm": f"https://{place}/token",
        "service": "registry",
        "issuer": "tokens",
        "rootcertbundle": certificate,
    }
    with running(tmp_path / "registry", auth={"token": token}) as address:
        yield address


@docker_registry
def test_the_registry_of_the_distribution_project_takes_and_gives_entries(tmp_path: Path) -> None:
    with running(tmp_path) as address:
        works(OciBlobs(f"oci://{address}/team/cache"))


@docker_registry
def test_tokens_are_fetched_from_the_server_that_the_registry_names(with_tokens: str) -> None:
    works(OciBlobs(f"oci://me:secret@{with_tokens}/team/cache"))
    again = OciBlobs(f"oci://me:secret@{with_tokens}/team/cache")
    assert again.read(NAME, 10**6, Pace()) == DATA, "a token for reading alone is asked for first"
    again.write(NAME, b"newer", Pace())
    assert again.read(NAME, 10**6, Pace()) == b"newer"


@docker_registry
@pytest.mark.parametrize("secret", ["", "me:wrong@"])
def test_who_gets_no_token_is_told_so(with_tokens: str, secret: str) -> None:
    blobs = OciBlobs(f"oci://{secret}{with_tokens}/team/cache")
    with pytest.raises(OutageError, match="401"):
        blobs.read(NAME, 1000, Pace())
    with pytest.raises(OutageError, match="401"):
        blobs.write(NAME, DATA, Pace())


@docker_registry
def test_a_token_server_whose_certificate_nobody_knows_gets_no_password(
    with_tokens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    blobs = OciBlobs(f"oci://me:secret@{with_tokens}/team/cache")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        blobs.read(NAME, 1000, Pace())
