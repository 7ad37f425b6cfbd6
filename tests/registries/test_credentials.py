"""Who asks is told to the registry that it is for, and to nobody else."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from homeless import nobody_at_home

from aotc_runtime.base.errors import RegistryError
from aotc_serve.http_client import NO_PROGRESS, HttpClient
from aotc_serve.oci import docker_credentials
from aotc_serve.oci.docker_credentials import CONFIG_BYTES_MAX, NOBODY, Credentials, credentials_for
from aotc_serve.oci.registry_authentication import Login
from aotc_serve.oci.registry_blobs import fetch_blob
from aotc_serve.oci.registry_listing import Memory
from tests.registries.conftest import Connect
from tests.registries.oci_server import Handler, OciServer, sha256
from tests.registries.test_blobs import DATA, DIGEST, REPO, always, fetched, pushed, status

ME = Credentials("me", "secret")
AUTH = base64.b64encode(b"me:secret").decode()


def test_a_password_is_sent_once_the_registry_wants_one(
    server: OciServer, connect: Connect
) -> None:
    server.blobs[REPO, DIGEST], server.password = DATA, "me:secret"
    assert fetched(connect(credentials=ME)) == DATA
    assert [each.authorization for each in server.asked] == ["", f"Basic {AUTH}"]


@pytest.mark.parametrize("given", [NOBODY, Credentials("me", "wrong")])
@pytest.mark.parametrize("token", ["", "t0ken"])
def test_who_is_not_let_in_is_told_so(
    given: Credentials, token: str, server: OciServer, connect: Connect
) -> None:
    server.password, server.token = "me:secret", token
    with pytest.raises(RegistryError) as caught:
        fetched(connect(credentials=given))
    assert caught.value.code == "AOTC-E773"
    assert "secret" not in str(caught.value) and "wrong" not in str(caught.value)
    assert len(server.asked) <= 4


def test_a_token_is_fetched_and_used(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.password, server.token = "me:secret", "t0ken"
    there = connect(credentials=ME)
    assert fetched(there) == fetched(there) == DATA
    assert server.count("GET", "/token") == 1
    given = [each.authorization for each in server.asked if each.path.startswith("/v2")]
    assert given == ["", "Bearer t0ken", "Bearer t0ken"]


def test_a_token_that_no_longer_counts_is_fetched_anew(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST] = DATA
    server.token = "first"
    there = connect()
    assert fetched(there) == DATA
    server.token = "second"
    assert fetched(there) == DATA
    assert pushed(there)


def test_an_identity_token_is_exchanged(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, DIGEST], server.token = DATA, "t0ken"
    forms = []

    def exchange(handler) -> None:
        forms.append(handler.body())
        handler.answer(200, b'{"access_token": "t0ken"}')

    server.faults.append(always(exchange, "POST", "/token"))
    assert fetched(connect(credentials=Credentials(identity="long lived"))) == DATA
    assert b"refresh_token=long+lived" in forms[0] and b"scope=repository" in forms[0]


@pytest.mark.parametrize(
    "realm",
    [
        "http://tokens.example.com/token",
        "http://127.0.0.1:1/token",
        "https://me@tokens.example.com/token",
        "file:///etc/passwd",
        "https://",
        "//x",
        "https://[",
    ],
)
def test_a_token_server_without_tls_or_place_is_not_asked(
    realm: str, server: OciServer, connect: Connect
) -> None:
    server.token, server.realm, server.password = "t0ken", realm, "me:secret"
    with pytest.raises(RegistryError) as caught:
        fetched(connect(credentials=ME))
    assert caught.value.code == "AOTC-E773"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"token": 1}', b'{"token": "a\\nb"}'])
def test_a_token_server_that_gives_something_else_gives_nothing(
    body: bytes, server: OciServer, connect: Connect
) -> None:
    server.token = "t0ken"
    server.faults.append(always(lambda h: h.answer(200, body), "GET", "/token"))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E773"


@pytest.mark.parametrize("token", ["", "t0ken"])
def test_a_host_that_readers_are_sent_to_is_told_nothing(
    token: str, server: OciServer, connect: Connect
) -> None:
    storage = OciServer()
    try:
        storage.blobs["x", DIGEST] = DATA
        server.password, server.token = "me:secret", token
        place = f"http://{storage.address}/v2/x/blobs/{DIGEST}"

        def send_on(handler) -> bool:
            if "/blobs/" not in handler.path or not handler.headers.get("Authorization"):
                return False
            handler.answer(307, b"", {"Location": place})
            return True

        server.faults.append(send_on)
        assert fetched(connect(credentials=ME)) == DATA
        assert [each.authorization for each in storage.asked] == [""]
    finally:
        storage.close()


def test_a_host_that_readers_are_sent_to_gets_no_password_by_asking_for_it(
    server: OciServer, connect: Connect
) -> None:
    storage = OciServer()
    try:
        storage.password = "me:secret"
        server.password = "me:secret"
        there = {"Location": f"http://{storage.address}/v2/x/blobs/{DIGEST}"}
        server.blobs[REPO, DIGEST] = DATA

        def send_on(handler) -> bool:
            if "/blobs/" not in handler.path or not handler.headers.get("Authorization"):
                return False
            handler.answer(302, b"", there)
            return True

        server.faults.append(send_on)
        with pytest.raises(RegistryError) as caught:
            fetched(connect(credentials=ME))
        assert caught.value.code == "AOTC-E773"
        assert [each.authorization for each in storage.asked] == [""]
    finally:
        storage.close()


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "http://example.com/x", "ftp://127.0.0.1/x", "http://[", ""]
)
def test_readers_are_sent_to_no_place_without_tls(
    place: str, server: OciServer, connect: Connect
) -> None:
    server.faults.append(always(status(307, Location=place)))
    with pytest.raises(RegistryError) as caught:
        fetched(connect())
    assert caught.value.code == "AOTC-E775"
    assert server.count("GET", "/blobs/") <= 6


def test_manifests_are_nowhere_else(server: OciServer, connect: Connect) -> None:
    other = OciServer()
    try:
        there = f"http://{other.address}/v2/models/digits/manifests/1.0"
        server.faults.append(always(status(307, Location=there), "GET", "/manifests/"))
        with pytest.raises(RegistryError):
            connect().manifest("1.0")
        assert other.asked == []
    finally:
        other.close()


def config(folder: Path, **document: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(document))
    return {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}


def helper(folder: Path, name: str, text: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("spelled", ["r.example.org:5000", "https://r.example.org:5000/v1/"])
def test_what_docker_login_has_left_is_found(spelled: str, tmp_path: Path) -> None:
    environment = config(tmp_path, auths={"other": {"auth": "x"}, spelled: {"auth": AUTH}})
    assert credentials_for("r.example.org:5000", environment) == ME
    assert credentials_for("r.example.org", environment) == NOBODY
    assert credentials_for("evil.r.example.org:5000", environment) == NOBODY


def test_docker_hub_has_a_name_of_its_own(tmp_path: Path) -> None:
    environment = config(tmp_path, auths={"https://index.docker.io/v1/": {"auth": AUTH}})
    assert credentials_for("registry-1.docker.io", environment) == ME


def test_a_helper_is_asked_for_its_host_alone(tmp_path: Path) -> None:
    helper(tmp_path, "one", 'echo "{\\"Username\\": \\"me\\", \\"Secret\\": \\"$(cat)\\"}"')
    environment = config(tmp_path, credHelpers={"r.example.org": "one"})
    assert credentials_for("r.example.org", environment) == Credentials("me", "r.example.org")
    assert credentials_for("other.example.org", environment) == NOBODY


def test_a_helper_that_knows_nothing_leaves_what_the_file_has(tmp_path: Path) -> None:
    helper(tmp_path, "store", "echo credentials not found in native keychain; exit 1")
    auths = {"r.example.org": {"auth": AUTH}}
    environment = config(tmp_path, credsStore="store", auths=auths)
    assert credentials_for("r.example.org", environment) == ME


def test_a_helper_of_the_host_has_the_last_word(tmp_path: Path) -> None:
    helper(tmp_path, "one", "echo credentials not found in native keychain; exit 1")
    auths = {"r.example.org": {"auth": AUTH}, "other.example.org": {"auth": AUTH}}
    environment = config(tmp_path, credHelpers={"r.example.org": "one"}, auths=auths)
    assert credentials_for("r.example.org", environment) == NOBODY
    assert credentials_for("other.example.org", environment) == ME


@pytest.mark.parametrize("given", [Credentials("me"), Credentials(password="secret")])
def test_half_of_a_name_and_password_is_told_as_it_is(given: Credentials) -> None:
    pair = base64.b64decode(given.header["Authorization"].removeprefix("Basic ")).decode()
    assert pair == f"{given.user}:{given.password}"
    assert NOBODY.header == {}


def test_a_configuration_is_read_up_to_its_limit(tmp_path: Path) -> None:
    text = json.dumps({"auths": {"r.example.org": {"auth": AUTH}}}).ljust(CONFIG_BYTES_MAX)
    for more in ("", " "):
        (tmp_path / "config.json").write_text(text + more)
        environment = {"DOCKER_CONFIG": str(tmp_path)}
        if not more:
            assert credentials_for("r.example.org", environment) == ME
            continue
        with pytest.raises(RegistryError) as caught:
            credentials_for("r.example.org", environment)
        assert caught.value.code == "AOTC-E773"


def test_a_helper_gives_an_identity_token(tmp_path: Path) -> None:
    helper(tmp_path, "store", 'echo \'{"Username": "<token>", "Secret": "long"}\'')
    environment = config(tmp_path, credsStore="store")
    assert credentials_for("r.example.org", environment) == Credentials(identity="long")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("store", "exit 3", "exit code 3: ''"),
        ("store", "echo nonsense", "an answer that is not what helpers print"),
        ("store", "exec sleep 20", "no answer within 1 s"),
        ("missing", "", "No such file or directory"),
        ("../store", "echo '{}'", "no name of a helper"),
    ],
)
def test_a_helper_that_cannot_be_used_is_told(
    name: str, text: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_credentials, "HELPER_SECONDS", 1.0)
    if text:
        helper(tmp_path, "store", text)
    with pytest.raises(RegistryError) as caught:
        credentials_for("r.example.org", config(tmp_path, credsStore=name))
    (told,) = caught.value.findings
    assert (told.code, told.found) == ("AOTC-E773", found)


def test_a_configuration_may_be_named_and_has_to_be_a_file(tmp_path: Path) -> None:
    config(tmp_path, auths={"r.example.org": {"auth": AUTH}})
    named = {"REGISTRY_AUTH_FILE": str(tmp_path / "config.json"), "DOCKER_CONFIG": "/nowhere"}
    assert credentials_for("r.example.org", named) == ME
    with pytest.raises(RegistryError) as caught:
        credentials_for("r.example.org", {"REGISTRY_AUTH_FILE": str(tmp_path)})
    assert caught.value.code == "AOTC-E773"


@pytest.mark.parametrize("text", ["", "[]", '{"auths": {"r.example.org": {"auth": "§"}}}', "{"])
def test_a_configuration_that_is_none_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RegistryError) as caught:
        credentials_for("r.example.org", {"DOCKER_CONFIG": str(tmp_path)})
    assert caught.value.code == "AOTC-E773"


def test_without_a_configuration_there_is_nobody(tmp_path: Path) -> None:
    assert credentials_for("r.example.org", {"DOCKER_CONFIG": str(tmp_path / "none")}) == NOBODY


def test_a_secret_is_in_no_text_of_credentials() -> None:
    assert "secret" not in repr(ME)


def test_blobs_of_nothing_are_fetched(server: OciServer, connect: Connect) -> None:
    server.blobs[REPO, sha256(b"")] = b""
    sink = Memory()
    fetch_blob(connect(), sha256(b""), 0, sink)
    assert bytes(sink.data) == b""


@pytest.mark.parametrize(
    ("code", "body", "found"),
    [
        (400, b"{}", "HTTP 400 Bad Request by its token server"),
        (200, b"{}", "its token server gave no token"),
        (200, b'{"token": ""}', "its token server gave no token"),
        (200, '{"token": "t\u00e9"}'.encode(), "its token server gave no token"),
        (200, b'{"token": "a\\r\\nb"}', "its token server gave no token"),
    ],
)
def test_a_token_server_that_refuses_or_gives_no_token_is_told_at_once(
    code: int, body: bytes, found: str, server: OciServer, connect: Connect
) -> None:
    def answer(handler: Handler) -> bool:
        if not handler.path.startswith("/token"):
            return False
        handler.answer(code, body)
        return True

    server.token, server.password = "t0ken", "me:secret"
    server.faults.append(answer)
    with pytest.raises(RegistryError) as caught:
        fetched(connect(credentials=ME))
    (told,) = caught.value.findings
    assert (told.code, told.found) == ("AOTC-E773", found)
    assert server.count("GET", "/token") == 1


def test_a_token_server_with_a_fragment_is_no_place(server: OciServer, connect: Connect) -> None:
    server.token, server.realm = "t0ken", f"http://{server.address}/token#x"
    with pytest.raises(RegistryError) as caught:
        fetched(connect(credentials=ME))
    assert caught.value.findings[0].found == "its token server is no place"
    assert server.count("GET", "/token") == 0


def test_a_token_server_elsewhere_is_asked_over_tls(server: OciServer, connect: Connect) -> None:
    """One that speaks no TLS is told nothing, and is no place that may not be asked."""
    other = OciServer()
    try:
        server.token, server.realm = "t0ken", f"https://{other.address}/token"
        with pytest.raises(RegistryError) as caught:
            fetched(connect(credentials=ME, tries=1))
        assert caught.value.code == "AOTC-E772"
        assert not other.asked
    finally:
        other.close()


def test_a_token_that_another_thread_has_fetched_meanwhile_is_used(server: OciServer) -> None:
    origin = f"http://{server.address}"
    login = Login(HttpClient(), origin, "a registry", lambda: NOBODY)
    challenge, server.token = f'Bearer realm="{origin}/token"', "t0ken"
    for _ in range(2):  # both were refused when nothing was said
        login.authenticate("pull", challenge, {}, NO_PROGRESS)
    assert login.header("pull") == {"Authorization": "Bearer t0ken"}
    assert server.count("GET", "/token") == 1


def test_who_was_refused_by_a_password_is_not_named_again(server: OciServer) -> None:
    login = Login(HttpClient(), f"http://{server.address}", "a registry", lambda: ME)
    login.authenticate("pull", "Basic realm=x", {}, NO_PROGRESS)
    with pytest.raises(RegistryError) as caught:
        login.authenticate("pull", "Basic realm=x", login.header("pull"), NO_PROGRESS)
    assert caught.value.findings[0].found == "HTTP 401 for who was named"


def test_a_token_server_that_fails_does_not_answer(server: OciServer, connect: Connect) -> None:
    server.token = "t0ken"
    server.faults.append(always(status(500), "GET", "/token"))
    with pytest.raises(RegistryError) as caught:
        fetched(connect(tries=1))
    assert caught.value.code == "AOTC-E772"


def test_who_has_no_home_has_no_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nobody_at_home(monkeypatch)
    assert credentials_for("registry.example.org", {}) == NOBODY
    text = json.dumps({"auths": {"registry.example.org": {"auth": AUTH}}})
    (tmp_path / "config.json").write_text(text)
    place = {"DOCKER_CONFIG": str(tmp_path)}
    assert credentials_for("registry.example.org", place) == ME
