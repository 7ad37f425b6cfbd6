"""Answers that no registry gives: each is refused with a code, soon, and stops nothing else."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from urllib3.exceptions import LocationParseError

from aotc.commands.registry.bundle_push import push
from aotc_runtime.base.errors import AotcError, RegistryError
from aotc_runtime.system.streamed_bundle import open_streamed
from aotc_serve.oci.docker_credentials import Credentials, credentials_for
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_client import Repository, RetryLimits
from aotc_serve.oci.registry_listing import fetch_attestations, resolve
from aotc_serve.service.bundle_repository import Repository as Served
from aotc_serve.service.served_loading import Settings
from tests.registries.conftest import LAYERS, Connect, refused
from tests.registries.faults import always, status
from tests.registries.oci_server import INDEX, Handler, OciServer
from tests.registries.test_served_bundles import pushed
from tests.unit.runtime.serve.test_replacing import Versions

LATER = "Mon, 01 Jan 2026 00:00:00"


def said(status: str, headers: dict[str, str], body: bytes = b"") -> Callable[[Handler], None]:
    """An answer byte for byte. ORIGIN in a header stands for the registry's."""

    def fault(handler: Handler) -> None:
        lines = [f"HTTP/1.1 {status}"]
        if "Transfer-Encoding" not in headers:
            lines.append(f"Content-Length: {headers.get('Content-Length', len(body))}")
        origin = f"http://{handler.server.address}"
        for name, value in headers.items():
            if name != "Content-Length":
                lines.append(f"{name}: {value.replace('ORIGIN', origin)}")
        head = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
        handler.wfile.write(head + body)
        handler.close_connection = True

    return fault


def realm(text: str, rest: str = "") -> Callable[[Handler], None]:
    return said("401 X", {"WWW-Authenticate": f'Bearer realm="{text}"{rest}'})


ANSWERS = {
    "realm of other characters": realm("https://example.invalid/\xe9", ',service="x"'),
    "realm with a port of many digits": realm("https://127.0.0.1:99999999/"),
    "realm with a port that is none": realm("https://127.0.0.1:x/"),
    "realm with a long label": realm(f"https://{'a' * 70}.invalid/"),
    "realm with an empty label": realm("https://.invalid/"),
    "realm with a NUL": realm("https://a%00b/"),
    "realm with a space": realm("https://127.0.0.1:1/a b"),
    "own realm with a space": realm("ORIGIN/to ken"),
    "own realm of other characters": realm("ORIGIN/\xe9"),
    "realm that is half an address": realm("https://[::1/"),
    "realm of a future address": realm("https://[v1.x]/"),
    "service of other characters": realm("ORIGIN/t", ',service="\xff\xfe",scope="a b c"'),
    "challenge of many commas": said("401 X", {"WWW-Authenticate": "Bearer " + "a," * 20000}),
    "retry after a large zone": said("503 X", {"Retry-After": f"{LATER} +99999999999999999999"}),
    "retry after another zone": said("503 X", {"Retry-After": f"{LATER} +9999"}),
    "retry after the first year": said("503 X", {"Retry-After": "1 Jan 0001 00:00:00 +1400"}),
    "retry after a far year": said("503 X", {"Retry-After": "Mon, 01 Jan 99999 00:00:00 GMT"}),
    "redirect": said("302 X", {"Location": "http://169.254.169.254/"}),
    "negative length": said("200 X", {"Content-Length": "-1"}, b"{}"),
    "length in other digits": said("200 X", {"Content-Length": "\xb2"}, b"{}"),
    "chunk of no size": said("200 X", {"Transfer-Encoding": "chunked"}, b"zz\r\n"),
    "chunk of a negative size": said("200 X", {"Transfer-Encoding": "chunked"}, b"-5\r\nhello\r\n"),
    "chunk of a large size": said("200 X", {"Transfer-Encoding": "chunked"}, b"f" * 16 + b"\r\nhi"),
    "compressed": said("200 X", {"Content-Encoding": "gzip"}, gzip.compress(b"{}")),
    "status of no meaning": said("999 X", {}),
    "reason with escapes": said("500 \x1b[31mred\x1b]0;t\x07", {}, b"\x1b[31m"),
    "body with escapes": said("400 X", {}, b"\x1b[31m\xe2\x80\xae\xc2\x9b31m"),
    "deep JSON": said("200 X", {}, b"[" * 100_000),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_strange_answer_has_a_code(name: str, server: OciServer, connect: Connect) -> None:
    server.faults.append(always(ANSWERS[name], text="/v2/"))
    began = time.monotonic()
    with pytest.raises(AotcError) as caught:
        fetch_attestations(connect(tries=2), resolve(connect("models/digits:live", tries=2)))
    assert caught.value.code.startswith(("AOTC-E77", "AOTC-E101"))
    assert "\x1b" not in str(caught.value) and "\u202e" not in str(caught.value)
    assert time.monotonic() - began < 10
    if name == "realm with a long label":
        assert isinstance(caught.value.__cause__, LocationParseError)
        assert "LocationParseError" in caught.value.findings[0].found


@pytest.mark.parametrize("number", [1, 2])
def test_registry_is_waited_for_within_patience(number: int, server: OciServer) -> None:
    """Seconds that it asks for count together."""
    server.faults.append(always(said("429 X", {"Retry-After": "1"}), text="/v2/"))
    tries = RetryLimits(9, 0.001, 0.002, patience=number - 0.5)
    with Repository(parse(f"oci://{server.address}/models/digits"), tries=tries) as there:
        assert refused(there.manifest, "live").code == "AOTC-E772"
    assert server.count("GET", "live") == number


@pytest.fixture
def place(server: OciServer, connect: Connect) -> Repository:
    """A bundle that the registry has, by its digest."""
    root = push(open_streamed(LAYERS), connect(), None, 0.0).place.digest
    return connect(f"models/digits@{root}")


@pytest.mark.parametrize("code", [200, 301, 302, 303, 307, 308, 404, 405])
def test_html_referrers_leave_the_tag(code: int, server: OciServer, place: Repository) -> None:
    page = {"Location": "https://sign-in.invalid/", "Content-Type": "text/html; charset=utf-8"}
    server.faults.append(always(status(code, b"<html>sign in</html>", **page), text="/referrers/"))
    assert len(fetch_attestations(place, resolve(place)).attestations) == 2


def test_an_empty_list_may_be_null(server: OciServer, place: Repository, connect: Connect) -> None:
    nothing = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": None}).encode()
    server.faults.append(always(status(200, nothing, Content_Type=INDEX), text="/referrers/"))
    assert len(fetch_attestations(place, resolve(place)).attestations) == 2
    root = resolve(place).digest
    server.manifests["models/digits", root.replace(":", "-")] = nothing, INDEX
    assert fetch_attestations(place, resolve(place)).attestations == ()
    push(open_streamed(LAYERS), connect(), None, 0.0)  # what stands in is written over, not refused
    assert len(fetch_attestations(place, resolve(place)).attestations) == 2


def test_token_fields_may_be_null(server: OciServer, connect: Connect, tmp_path: Path) -> None:
    server.token = "t"
    token = b'{"token":null,"access_token":"t"}'
    server.faults.append(always(status(200, token), text="/token"))
    assert connect().manifest("live") is None
    config = tmp_path / "config.json"
    config.write_text('{"auths":{"a":{"auth":"dTpw","username":null},"b":null},"credHelpers":null}')
    environment = {"REGISTRY_AUTH_FILE": str(config)}
    assert credentials_for("a", environment) == Credentials("u", "p")
    assert credentials_for("b", environment) == Credentials()


@pytest.mark.parametrize("kind", ["manifests", "blobs"])
def test_compressed_answer_is_told(kind: str, server: OciServer, place: Repository) -> None:
    compressed = status(200, gzip.compress(b"{}"), Content_Encoding="gzip")
    server.faults.append(always(compressed, text=f"/{kind}/"))
    told = refused(lambda: fetch_attestations(place, resolve(place)), kind=RegistryError)
    assert told.code == "AOTC-E775" and told.found == "Content-Encoding: gzip"


def test_digest_tag_is_told_when_nothing_else_lists(server: OciServer, connect: Connect) -> None:
    def answers_the_digest(handler: Handler) -> bool:
        name = handler.path.rpartition("/")[2]
        is_asked = handler.command == "GET" and name.startswith("sha256-") and "." not in name
        if is_asked:
            found = handler.server.manifests.get(("models/digits", name.replace("-", ":", 1)))
            data, kind = found if found is not None else (b"", "")
            handler.answer(200 if data else 404, data, {"Content-Type": kind})
        return is_asked

    server.faults.append(answers_the_digest)
    with connect() as there:  # its API lists them
        push(open_streamed(LAYERS), there, None, 0.0)
    server.referrers = False
    with connect("models/others") as there, pytest.raises(RegistryError) as caught:
        server.manifests.update(
            {("models/digits", n): v for (_, n), v in list(server.manifests.items())}
        )
        push(open_streamed(LAYERS), there, None, 0.0)
    assert "the bundle's own index" in caught.value.findings[0].found


def test_a_place_that_fails_in_any_way_stops_no_other_and_is_told(
    digits_bundle: tuple[Path, Path], server: OciServer, connect: Connect, tmp_path: Path
) -> None:
    versions, told = Versions(digits_bundle[0], tmp_path), list[tuple[str, str]]()
    pushed(versions, "1.0.0", connect, tmp_path)
    versions.write("2.0.0", tmp_path / "second.aotb")
    given = [str(tmp_path / name) for name in ("no\0file", "empty", "second.aotb")]
    given.insert(0, f"oci://{server.address}/models/digits:live")
    (tmp_path / "empty").mkdir()
    served = Served(
        given,
        [versions.trust],
        Settings(store=tmp_path / "store"),
        lambda word, facts: told.append((word, str(facts.get("bundle")))),
    )
    server.faults.append(always(ANSWERS["realm with a long label"], text="/v2/"))
    findings = served.load_all(strict=False)
    assert [each.code for each in findings] == ["AOTC-E108", "AOTC-E775", "AOTC-E781"]
    assert [each.version for each in served.bundles()] == ["2.0.0"]
    refused = {bundle for word, bundle in told if word == "refused"}
    assert refused == {*given[:3]}
    server.faults.clear()
    with pytest.raises(AotcError, match=r"no.*file"):  # still, after all others were loaded
        served.load_model("digits")
    assert sorted(each.version for each in served.bundles()) == ["1.0.0", "2.0.0"]
    served.close()
