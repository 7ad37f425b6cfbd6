"""`aotc keygen`: key pairs that load, are private, and replace nothing."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from aotc.base.errors import UsageError
from aotc.bundle.sign.signer import load_signer
from aotc_runtime.verification.public_keys import load_public_key
from tests.conftest import Run
from tests.refusals import error_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_plain_pair_is_private(aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTC_KEY_PASSPHRASE", "--plain wins over it")
    done = aotc("keygen", "ci", "--plain", "--json")
    assert done.exit_code == 0
    assert done.document | {"key_id": ""} == {
        "ok": True,
        "private_key": "ci.key",
        "public_key": "ci.pub",
        "key_id": "",
        "encrypted": False,
        "type": "ed25519",
    }
    assert mode(tmp_path / "ci.key") == 0o600
    assert b"ENCRYPTED" not in (tmp_path / "ci.key").read_bytes()
    assert load_signer(tmp_path / "ci.key", None).key_id == done.document["key_id"]


@pytest.mark.parametrize("source", ["variable", "file", "file beats variable", "bytes"])
def test_an_encrypted_pair_loads_with_its_passphrase_only(
    aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    arguments = ["keygen", "ci", "--json"]
    secret = b"\xff not text" if source == "bytes" else b"correct horse"
    if source.startswith("file"):
        (tmp_path / "secret").write_bytes(secret + b"\r\nsecond line\n")
        arguments += ["--passphrase-file", "secret"]
        monkeypatch.setenv("AOTC_KEY_PASSPHRASE", "another")
    else:
        monkeypatch.setattr("os.environb", {b"AOTC_KEY_PASSPHRASE": secret})
    done = aotc(*arguments)
    assert done.document["encrypted"] is True
    assert mode(tmp_path / "ci.key") == 0o600
    assert load_signer(tmp_path / "ci.key", secret).key_id == done.document["key_id"]
    for wrong in (None, b"", b"another", secret + b"\n"):
        assert error_of(UsageError, load_signer, tmp_path / "ci.key", wrong).code == "AOTC-E007"


def test_keygen_without_passphrase_writes_nothing(refused: Run, tmp_path: Path) -> None:
    refused(["keygen", "ci"], 2, "AOTC-E009")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\nsecret", b"x" * 1024])
def test_empty_passphrase_is_refused(refused: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    refused(["keygen", "ci", "--passphrase-file", "secret"], 2, "AOTC-E008")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_passphrase_may_be_as_long_as_openssl_takes(aotc: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 1023)
    assert aotc("keygen", "ci", "--passphrase-file", "secret", "--json").document["encrypted"]
    load_signer(tmp_path / "ci.key", b"x" * 1023)


@pytest.mark.parametrize("existing", ["ci.key", "ci.pub"])
def test_existing_keys_are_never_overwritten(refused: Run, tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("precious")
    done = refused(["keygen", "ci", "--plain"], 2, "AOTC-E005")
    assert f"--> {existing}\n" in done.stderr
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(existing, "precious")]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_private_key_is_private_whatever_the_umask(aotc: Run, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        aotc("keygen", "ci", "--plain")
    finally:
        os.umask(before)
    assert mode(tmp_path / "ci.key") == 0o600


@pytest.mark.parametrize("secret", [None, b"correct horse"])
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa-p256"])
def test_both_kinds_of_keys_are_pkcs8_and_sign_what_their_public_halves_verify(
    aotc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, secret: bytes | None
) -> None:
    if secret:
        monkeypatch.setattr("os.environb", {b"AOTC_KEY_PASSPHRASE": secret})
    plain = [] if secret else ["--plain"]
    made = aotc("keygen", "ci", "--type", kind, *plain, "--json").document
    assert (made["type"], made["encrypted"]) == (kind, secret is not None)
    label = b"ENCRYPTED PRIVATE KEY" if secret else b"PRIVATE KEY"
    assert (tmp_path / "ci.key").read_bytes().startswith(b"-----BEGIN " + label + b"-----\n")
    assert (mode(tmp_path / "ci.key"), mode(tmp_path / "ci.pub")) == (0o600, 0o644)
    signer = load_signer(tmp_path / "ci.key", secret)
    public = load_public_key((tmp_path / "ci.pub").read_text(), "", "ci.pub")
    assert signer.key_id == public.id == made["key_id"]
    assert isinstance(signer.key, ed25519.Ed25519PrivateKey) == (kind == "ed25519")
    assert public.verify(signer.sign(b"message"), b"message")
    assert signer.sign(b"message") == signer.sign(b"message"), "so that builds reproduce"


@pytest.mark.parametrize("prefix", ["gone/ci", "", ".", "..", "/"])
def test_a_prefix_that_names_no_file_is_refused(refused: Run, tmp_path: Path, prefix: str) -> None:
    refused(["keygen", prefix, "--plain"], 2, "AOTC-E003")
    assert not list(tmp_path.iterdir())
