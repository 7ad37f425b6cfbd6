"""Keys that sign: which are taken, and that what they sign is what the runtime checks."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from aotc.base.errors import UsageError
from aotc.bundle.sign import signer
from tests.refusals import error_of

PKCS8 = serialization.PrivateFormat.PKCS8
KEY = ed25519.Ed25519PrivateKey.generate()
ENCRYPTION = serialization.BestAvailableEncryption(b"secret")
PLAIN = KEY.private_bytes(serialization.Encoding.PEM, PKCS8, serialization.NoEncryption())
ENCRYPTED = KEY.private_bytes(serialization.Encoding.PEM, PKCS8, ENCRYPTION)
DER = KEY.private_bytes(serialization.Encoding.DER, PKCS8, serialization.NoEncryption())
OPENSSH = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(public_exponent=65537, key_size=2048), "RSA"),
        (ec.generate_private_key(ec.SECP384R1()), "ECDSA secp384r1"),
        (ec.generate_private_key(ec.SECP256K1()), "ECDSA secp256k1"),
        (ed448.Ed448PrivateKey.generate(), "Ed448"),
        (x25519.X25519PrivateKey.generate(), "X25519"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("passphrase", [None, b"secret"])
def test_other_kinds_of_keys_are_refused_by_name(
    tmp_path: Path, key: PrivateKeyTypes, kind: str, passphrase: bytes | None
) -> None:
    encryption = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    (tmp_path / "k.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, PKCS8, encryption)
    )
    (finding,) = error_of(UsageError, signer.load_signer, tmp_path / "k.key", passphrase).findings
    assert (finding.code, finding.found) == ("AOTC-E006", kind)
    assert finding.title == "unsupported key type"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "something else"),
        (b"\x00\xff", "something else"),
        (b"-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n", "a damaged key"),
        (PLAIN[:60] + PLAIN[70:], "a damaged key"),
        (PLAIN[:90], "a truncated key"),
        (ENCRYPTED[:200], "a truncated key"),
        (ENCRYPTED[:200] + ENCRYPTED[203:], "a damaged key"),
        (OPENSSH, "an OpenSSH key"),
        (signer.LocalSigner.ephemeral().public_pem().encode(), "a public key"),
        (b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", "a certificate"),
        (DER, "something else"),
    ],
    ids=[
        *("empty", "bytes", "broken", "cut out", "truncated", "encrypted, truncated"),
        *("encrypted, cut out", "OpenSSH", "public", "certificate", "DER"),
    ],
)
@pytest.mark.parametrize("passphrase", [None, b"secret"])
def test_no_private_key(tmp_path: Path, data: bytes, found: str, passphrase: bytes | None) -> None:
    (tmp_path / "k.key").write_bytes(data)
    caught = error_of(UsageError, signer.load_signer, tmp_path / "k.key", passphrase)
    assert caught.code == "AOTC-E006"
    assert caught.findings[0].found == found


def test_a_needless_passphrase_does_no_harm(tmp_path: Path) -> None:
    pair = signer.generate_key_pair(tmp_path / "k", None)
    assert signer.load_signer(pair.private, b"needless").key_id == pair.id


def test_an_empty_passphrase_never_means_no_encryption(tmp_path: Path) -> None:
    assert error_of(UsageError, signer.generate_key_pair, tmp_path / "k", b"").code == "AOTC-E009"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
def test_encrypted_key_needs_its_passphrase(tmp_path: Path, form: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    kind = getattr(serialization.PrivateFormat, form)
    (tmp_path / "k.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, kind, ENCRYPTION)
    )
    for passphrase, title in ((None, "missing"), (b"", "missing"), (b"wrong", "wrong")):
        (finding,) = error_of(
            UsageError, signer.load_signer, tmp_path / "k.key", passphrase
        ).findings
        assert (finding.code, finding.title) == ("AOTC-E007", f"passphrase is {title}")
    assert signer.load_signer(tmp_path / "k.key", b"secret").key.public_key() == key.public_key()


def test_a_key_file_has_a_size_that_keys_have(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x" * signer.KEY_BYTES_MAX)
    assert len(signer.read_key_file(path)) == signer.KEY_BYTES_MAX
    path.write_bytes(b"x" * (signer.KEY_BYTES_MAX + 1))
    with pytest.raises(OSError, match="more than"):
        signer.read_key_file(path)
