"""PKCS#11 URIs say exactly one thing, and never a PIN. The token itself: tests/interop."""

from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.base.workers import confined_process
from aotc.commands.pkcs11.pkcs11_signer import open_key
from aotc.commands.pkcs11.pkcs11_uri import Pkcs11Uri, parse_uri
from tests.refusals import error_of

MODULE = "?module-path=/usr/lib/x.so"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        (
            "pkcs11:object=k?module-path=/usr/lib/x.so",
            Pkcs11Uri("/usr/lib/x.so", {}, "k", None, None),
        ),
        (
            "PKCS11:token=My%20token%3b;id=%01%ff;type=private?pin-source=p&module-path=x%3d.so",
            Pkcs11Uri("x=.so", {"token": "My token;"}, None, b"\x01\xff", Path("p")),
        ),
        (
            "pkcs11:serial=1;model=m;manufacturer=f;slot-id=3;object=%c3%a4?module-path=x",
            Pkcs11Uri(
                "x",
                {"serial": "1", "manufacturer": "f", "model": "m", "slot-id": "3"},
                "ä",
                None,
                None,
            ),
        ),
        (
            "pkcs11:object=k?module-path=x&pin-source=file:///run/pin%201",
            Pkcs11Uri("x", {}, "k", None, Path("/run/pin 1")),
        ),
    ],
)
def test_a_uri_names_a_token_and_a_key_in_it(text: str, uri: Pkcs11Uri) -> None:
    assert parse_uri(text) == uri


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pkcs11:", "neither"),
        (f"pkcs11:token=t{MODULE}", "neither"),
        ("pkcs11:object=k", "none"),
        ("pkcs11:object=k?module-path=", "none"),
        (f"pkcs11:object=k;object=l{MODULE}", "object twice"),
        (f"pkcs11:object=k;type=cert{MODULE}", "type=cert"),
        (f"pkcs11:object=k;libary=x{MODULE}", "libary"),
        (f"pkcs11:object=k;token{MODULE}", "token"),
        (f"pkcs11:object=k;{MODULE}", "an empty attribute"),
        (f"pkcs11:object=k{MODULE}&colour=red", "colour"),
        (f"pkcs11:object=k{MODULE}&pin-source=|cat", "a command"),
        (f"pkcs11:object=k{MODULE}&pin-source=", "an empty one"),
        (f"pkcs11:object=k{MODULE}&pin-source=http://host/pin", "http"),
        (f"pkcs11:object=k{MODULE}&pin-source=file://host/pin", "file"),
        (f"pkcs11:object=k{MODULE}&pin-source=data:,1234", "data"),
    ],
)
def test_what_a_uri_may_not_say_is_named(text: str, found: str) -> None:
    (finding,) = error_of(UsageError, parse_uri, text).findings
    assert (finding.code, finding.found) == ("AOTC-E017", found)


@pytest.mark.parametrize("place", [f"{MODULE}&pin-value=", ";pin-value="])
def test_a_pin_in_the_uri_is_refused_and_not_repeated(place: str) -> None:
    caught = error_of(UsageError, parse_uri, f"pkcs11:object=k{place}1234")
    assert caught.code == "AOTC-E017"
    assert caught.findings[0].title == "PIN in the PKCS#11 URI"
    assert "1234" not in str(caught)


@pytest.mark.parametrize("source", ["gone", ".", "empty", "bytes"])
def test_empty_pin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTC_PKCS11_PIN", "not used instead")
    Path("empty").write_bytes(b"\n1234")
    Path("bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError) as caught:
        open_key(f"pkcs11:object=k{MODULE}&pin-source={source}", lambda prompt: "1234")
    assert caught.value.code == "AOTC-E019"
    assert str(Path(source).absolute()) in confined_process.secrets()


def test_without_the_extra_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pkcs11", None)
    caught = error_of(UsageError, open_key, f"pkcs11:object=k{MODULE}", lambda prompt: "1234")
    assert caught.code == "AOTC-E018"
    assert "'.[pkcs11]'" in caught.findings[0].hint
