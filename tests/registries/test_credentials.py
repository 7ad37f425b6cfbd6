"""Tests that credentials are sent to their own registry only."""

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
from tests.registries.conftest import Connect, refused
from tests.registries.faults import DATA, DIGEST, REPO, always, fetched, status
from tests.registries.oci_server import Handler, OciServer

ME = Credentials("me", "secret")
AUTH = base64.b64encode(b"me:secret").decode()
HOST = "r.example.org"
AUTHS = {HOST: {"auth": AUTH}}


pytestmark = pytest.mark.usefixtures("stored")


def test_password_is_sent_on_demand(server: OciServer, connect: Connect) -> None:
    server.password = "me:secret"
    assert fetched(connect(credentials=ME)) == DATA
    assert [each.authorization for each in server.asked] == ["", f"Basic {AUTH}"]


@pytest.mark.parametrize("given", [NOBODY, Credentials("me", "wrong")])
@pytest.mark.parametrize("token", ["", "t0ken"])
def test_login_fails(given: Credentials, token: str, server: OciServer, connect: Connect) -> None:
    server.password, server.token = "me:secret", token
    with pytest.raises(RegistryError) as caught:
        fetched(connect(credentials=given))
    assert caught.value.code == "AOTC-E773"
    assert "secret" not in str(caught.value) and "wrong" not in str(caught.value)
    assert len(server.asked) <= 4


def test_token_is_fetched_once_until_it_expires(server: OciServer, connect: Connect) -> None:
    server.password, server.token = "me:secret", "t0ken"
    there = connect(credentials=ME)
    assert fetched(there) == fetched(there) == DATA
    assert server.count("GET", "/token") == 1
    given = [each.authorization for each in server.asked if each.path.startswith("/v2")]
    assert given == ["", "Bearer t0ken", "Bearer t0ken"]
    server.token = "second"
    assert fetched(there) == DATA


def test_an_identity_token_is_exchanged(server: OciServer, connect: Connect) -> None:
    server.token, forms = "t0ken", list[bytes]()

    def exchange(handler: Handler) -> None:
        forms.append(handler.body())
        handler.answer(200, b'{"access_token": "t0ken"}')

    server.faults.append(always(exchange, "POST", "/token"))
    assert fetched(connect(credentials=Credentials(identity="long lived"))) == DATA
    assert b"refresh_token=long+lived" in forms[0] and b"scope=repository" in forms[0]


@pytest.mark.parametrize(
    "realm",
    [
        *("http://tokens.example.com/token", "http://127.0.0.1:1/token"),
        *("https://me@tokens.example.com/token", "file:///etc/passwd", "https://", "//x"),
        *("https://[", "OWN/token#x"),
    ],
)
def test_token_server_needs_tls_and_place(realm: str, server: OciServer, connect: Connect) -> None:
    server.token, server.password = "t0ken", "me:secret"
    server.realm = realm.replace("OWN", f"http://{server.address}")
    assert refused(fetched, connect(credentials=ME)).code == "AOTC-E773"
    assert server.count("GET", "/token") == 0


def test_foreign_token_server_is_tls(server: OciServer, other: OciServer, connect: Connect) -> None:
    """One that speaks no TLS is told nothing, and is no place that may not be asked."""
    server.token, server.realm = "t0ken", f"https://{other.address}/token"
    assert refused(fetched, connect(credentials=ME, tries=1)).code == "AOTC-E772"
    assert not other.asked


@pytest.mark.parametrize(
    ("code", "body", "found"),
    [
        (400, b"{}", "HTTP 400 Bad Request by the token server"),
        *(
            (200, body, "no token in the response")
            for body in (
                b"",
                b"[]",
                b"{}",
                b'{"token": 1}',
                b'{"token": ""}',
                '{"token": "t\u00e9"}'.encode(),
                b'{"token": "a\\r\\nb"}',
            )
        ),
    ],
)
def test_a_token_server_that_refuses_or_gives_no_token_is_told_at_once(
    code: int, body: bytes, found: str, server: OciServer, connect: Connect
) -> None:
    server.token, server.password = "t0ken", "me:secret"
    server.faults.append(always(status(code, body), "GET", "/token"))
    told = refused(fetched, connect(credentials=ME))
    assert (told.code, told.found) == ("AOTC-E773", found)
    assert server.count("GET", "/token") == 1


def test_a_token_server_that_fails_does_not_answer(server: OciServer, connect: Connect) -> None:
    server.token = "t0ken"
    server.faults.append(always(status(500), "GET", "/token"))
    assert refused(fetched, connect(tries=1)).code == "AOTC-E772"


def send_on(server: OciServer, storage: OciServer) -> None:
    """Have whoever is let in fetch blobs from a storage."""
    place = f"http://{storage.address}/v2/{REPO}/blobs/{DIGEST}"

    def elsewhere(handler: Handler) -> bool:
        if is_in := "/blobs/" in handler.path and bool(handler.headers.get("Authorization")):
            handler.answer(307, b"", {"Location": place})
        return is_in

    server.faults.append(elsewhere)


@pytest.mark.parametrize("token", ["", "t0ken"])
def test_no_password(token: str, server: OciServer, other: OciServer, connect: Connect) -> None:
    other.blobs[REPO, DIGEST] = DATA
    server.password, server.token = "me:secret", token
    send_on(server, other)
    assert fetched(connect(credentials=ME)) == DATA
    assert [each.authorization for each in other.asked] == [""]


def test_redirected_host_no_password(server: OciServer, other: OciServer, connect: Connect) -> None:
    server.password = other.password = "me:secret"
    send_on(server, other)
    assert refused(fetched, connect(credentials=ME)).code == "AOTC-E773"
    assert [each.authorization for each in other.asked] == [""]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("file:///etc/passwd", "file:"),
        ("ftp://127.0.0.1/x", "ftp:"),
        ("http://example.com/x", "without TLS"),
        ("http://[::1/x", "an invalid address"),
        ("http://127.0.0.1:port/x", "an invalid address"),
        ("https:///x", "https:"),
        ("", ""),
    ],
)
def test_redirects_need_tls(place: str, found: str, server: OciServer, connect: Connect) -> None:
    server.faults.append(always(status(307, Location=place)))
    told = refused(fetched, connect(), kind=RegistryError)
    assert told.code == "AOTC-E775" and found in told.found
    assert server.count("GET", "/blobs/") <= 6


def test_manifests_are_nowhere_else(server: OciServer, other: OciServer, connect: Connect) -> None:
    there = f"http://{other.address}/v2/models/digits/manifests/1.0"
    server.faults.append(always(status(307, Location=there), "GET", "/manifests/"))
    refused(connect().manifest, "1.0", kind=RegistryError)
    assert other.asked == []


def config(folder: Path, **document: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(document))
    return {"DOCKER_CONFIG": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}


def helper(folder: Path, name: str, text: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("spelled", [f"{HOST}:5000", f"https://{HOST}:5000/v1/"])
def test_what_docker_login_has_left_is_found(spelled: str, tmp_path: Path) -> None:
    environment = config(tmp_path, auths={"other": {"auth": "x"}, spelled: {"auth": AUTH}})
    assert credentials_for(f"{HOST}:5000", environment) == ME
    assert credentials_for(HOST, environment) == NOBODY
    assert credentials_for(f"evil.{HOST}:5000", environment) == NOBODY


def test_docker_hub_has_a_name_of_its_own(tmp_path: Path) -> None:
    environment = config(tmp_path, auths={"https://index.docker.io/v1/": {"auth": AUTH}})
    assert credentials_for("registry-1.docker.io", environment) == ME


def test_a_helper_is_asked_for_its_host_alone(tmp_path: Path) -> None:
    helper(tmp_path, "one", 'echo "{\\"Username\\": \\"me\\", \\"Secret\\": \\"$(cat)\\"}"')
    environment = config(tmp_path, credHelpers={HOST: "one"})
    assert credentials_for(HOST, environment) == Credentials("me", HOST)
    assert credentials_for("other.example.org", environment) == NOBODY


def test_unknowing_helper_leaves_the_file_but_for_its_host(tmp_path: Path) -> None:
    helper(tmp_path, "store", "echo credentials not found in native keychain; exit 1")
    assert credentials_for(HOST, config(tmp_path, credsStore="store", auths=AUTHS)) == ME
    auths = AUTHS | {"other.example.org": {"auth": AUTH}}
    environment = config(tmp_path, credHelpers={HOST: "store"}, auths=auths)
    assert credentials_for(HOST, environment) == NOBODY
    assert credentials_for("other.example.org", environment) == ME


def test_a_helper_gives_an_identity_token(tmp_path: Path) -> None:
    helper(tmp_path, "store", 'echo \'{"Username": "<token>", "Secret": "long"}\'')
    environment = config(tmp_path, credsStore="store")
    assert credentials_for(HOST, environment) == Credentials(identity="long")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("store", "exit 3", "exit code 3: ''"),
        ("store", "echo nonsense", "invalid output of the helper"),
        ("store", "exec sleep 20", "no output within 1 s"),
        ("missing", "", "No such file or directory"),
        ("../store", "echo '{}'", "an invalid helper name"),
    ],
)
def test_a_helper_that_cannot_be_used_is_told(
    name: str, text: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_credentials, "HELPER_SECONDS", 1.0)
    if text:
        helper(tmp_path, "store", text)
    told = refused(credentials_for, HOST, config(tmp_path, credsStore=name))
    assert (told.code, told.found) == ("AOTC-E773", found)


@pytest.mark.parametrize("given", [Credentials("me"), Credentials(password="secret")])
def test_half_of_a_name_and_password_is_told_as_it_is(given: Credentials) -> None:
    pair = base64.b64decode(given.header["Authorization"].removeprefix("Basic ")).decode()
    assert pair == f"{given.user}:{given.password}"
    assert NOBODY.header == {} and "secret" not in repr(ME)


def test_a_configuration_may_be_named_and_has_to_be_a_file(tmp_path: Path) -> None:
    config(tmp_path, auths=AUTHS)
    named = {"REGISTRY_AUTH_FILE": str(tmp_path / "config.json"), "DOCKER_CONFIG": "/nowhere"}
    assert credentials_for(HOST, named) == ME
    assert credentials_for(HOST, {"DOCKER_CONFIG": str(tmp_path / "none")}) == NOBODY
    folder = {"REGISTRY_AUTH_FILE": str(tmp_path)}
    assert refused(credentials_for, HOST, folder).code == "AOTC-E773"


LONGEST = json.dumps({"auths": AUTHS}).ljust(CONFIG_BYTES_MAX)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"auths": {"r.example.org": {"auth": "§"}}}', "{", f"{LONGEST} "],
    ids=["empty", "a list", "no base64", "cut", "too long"],
)
def test_a_configuration_that_is_none_is_told(text: str, tmp_path: Path) -> None:
    environment = config(tmp_path)
    (tmp_path / "config.json").write_text(LONGEST)
    assert credentials_for(HOST, environment) == ME
    (tmp_path / "config.json").write_text(text)
    assert refused(credentials_for, HOST, environment).code == "AOTC-E773"


def test_no_home_has_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nobody_at_home(monkeypatch)
    assert credentials_for(HOST, {}) == NOBODY
    assert credentials_for(HOST, config(tmp_path, auths=AUTHS)) == ME


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
    again = "pull", "Basic realm=x", login.header("pull"), NO_PROGRESS
    assert refused(login.authenticate, *again).found == "HTTP 401 with credentials"
