"""References are read as they are meant, or refused."""

import pytest

from aotc_runtime.base.errors import RegistryError
from aotc_serve.oci.oci_references import REPOSITORY_CHARACTERS_MAX, Reference, is_reference, parse

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://h/r", Reference("h", "r")),
        ("oci://h:5000/a/b-c__d.e:1.0", Reference("h:5000", "a/b-c__d.e", "1.0")),
        (f"oci://h.example.org/r@{DIGEST}", Reference("h.example.org", "r", "", DIGEST)),
        (f"oci://[::1]:80/r:t@{DIGEST}", Reference("[::1]:80", "r", "t", DIGEST)),
    ],
)
def test_what_is_meant(text: str, expected: Reference) -> None:
    assert parse(text) == expected
    assert str(parse(text)) == text and is_reference(text)
    assert not is_reference(text.replace("//", "/")) and not is_reference("bundle.aotb")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "r",
        "oci://",
        "oci://h",
        "oci:///r",
        "oci://h/R",
        "oci://h/a//b",
        "oci://h/../r",
        "oci://h/r:",
        "oci://h/r:-x",
        "oci://h/r@sha256:abc",
        f"oci://h/r@{DIGEST}\n",
        f"oci://h/r@{DIGEST.upper()}",
        "oci://h/r?x=1",
        "oci://h:99999/r",
        "oci://h:/r",
        "oci://h h/r",
        "oci://me:secret@h/r",
        "oci://h/" + "r" * 256,
        "https://h/r",
    ],
)
def test_what_is_no_reference_is_refused_and_shows_no_secret(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse(text)
    assert caught.value.code == "AOTC-E771"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:5000", "http://localhost:5000"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("docker.io", "https://registry-1.docker.io"),
        ("localhost.example.org", "https://localhost.example.org"),
        ("127.0.0.1.example.org", "https://127.0.0.1.example.org"),
        ("10.0.0.1:5000", "https://10.0.0.1:5000"),
    ],
)
def test_only_loopback_is_asked_without_tls(host: str, origin: str) -> None:
    assert parse(f"oci://{host}/r").origin == origin


def test_ports_and_repositories_are_taken_up_to_their_limits() -> None:
    assert parse("oci://r.example.org:65535/x").host == "r.example.org:65535"
    longest = "x" * REPOSITORY_CHARACTERS_MAX
    assert parse(f"oci://r.example.org/{longest}:1").repository == longest
    for text in ("oci://r.example.org:65536/x", f"oci://r.example.org/{longest}x:1"):
        with pytest.raises(RegistryError):
            parse(text)
