"""Digests in OCI's spelling and no other."""

from __future__ import annotations

import hashlib

import pytest

from aotc_runtime.digest import is_digest, sha256


def test_a_digest_is_sha256_in_lower_case_hex() -> None:
    assert sha256(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert sha256(memoryview(b"abc")) == sha256(b"abc")
    assert is_digest(sha256(b""))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        "0" * 64,
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "A" * 64,
        "SHA256:" + "0" * 64,
        "sha256:" + "0" * 64 + "\n",
        "sha256:" + "٠" * 64,
        "sha512:" + "0" * 128,
        " sha256:" + "0" * 64,
    ],
)
def test_every_other_spelling_is_none(text: str) -> None:
    assert not is_digest(text)
