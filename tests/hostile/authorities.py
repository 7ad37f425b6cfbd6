"""Authorities for RFC 3161 timestamps, made here: a root, what it signed, and `openssl ts`."""

import base64
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aotc.commands.timestamp.timestamp_client import add_timestamps
from aotc_runtime.schema.trust_policy import TimestampAuthority

DAY = timedelta(days=1)
CONFIG = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha1, sha224, sha256, sha384, sha512
ordering = no
tsa_name = no
ess_cert_id_chain = no
"""


@dataclass(frozen=True)
class Authority:
    """command: reads a query and writes the answer.  root: PEM of its root certificate, whose key
    signs other certificates, too.  leaf: PEM of the certificate that answers.
    """

    command: str
    root: str
    root_key: ec.EllipticCurvePrivateKey
    leaf: str

    def chain(self) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates((self.leaf + self.root).encode())

    def trusted(self, name: str = "here") -> TimestampAuthority:
        return TimestampAuthority(name=name, certificates=self.root)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: str, key: Any, days: tuple[int, int]) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("root"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * DAY)
        .not_valid_after(now + days[1] * DAY)
    )


def authority(
    folder: Path, *, days: tuple[int, int] = (-10, 3650), root_days: tuple[int, int] | None = None
) -> Authority:
    """A new one. days, root_days: from when to when its certificate and its root's are valid, from
    now.
    """
    folder.mkdir()
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = (
        _certificate("root", root_key, root_days or (-3650, 7300))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
    tsa = (
        _certificate("tsa", key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(purposes, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "tsa.pem").write_bytes(tsa.public_bytes(pem))
    (folder / "tsa.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "serial").write_text("01")
    (folder / "ts.cnf").write_text(CONFIG.format(folder=folder))
    reply = f"openssl ts -reply -config {folder}/ts.cnf -queryfile /dev/stdin -out /dev/stdout"
    written = [each.public_bytes(pem).decode() for each in (root, tsa)]
    return Authority(reply, written[0], root_key, written[1])


def by_hand(
    message: bytes, authority: Authority, purposes: Sequence[x509.ObjectIdentifier], critical: bool
) -> str:
    """A timestamp of a message, in base64, by a certificate of the same root that is for these
    purposes; none for one that does not say. What `openssl ts` would not make, `openssl cms` does.
    """
    key, plain = ec.generate_private_key(ec.SECP256R1()), x509.BasicConstraints(False, None)
    made = _certificate("tls", key, (-1, 1)).add_extension(plain, critical=True)
    if purposes:
        made = made.add_extension(x509.ExtendedKeyUsage(purposes), critical=critical)
    pem = serialization.Encoding.PEM
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signer = made.sign(authority.root_key, hashes.SHA256())
        (folder / "signer").write_bytes(
            signer.public_bytes(pem)
            + key.private_bytes(
                pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / "answer").write_bytes(base64.b64decode(answer_to(message, authority)))

        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=True)

        openssl("ts", "-reply", "-in", "answer", "-token_out", "-out", "token")
        openssl("cms", "-verify", "-noverify", "-inform", "DER", "-in", "token", "-out", "told")
        openssl(
            *("cms", "-sign", "-binary", "-nodetach", "-cades", "-md", "sha256"),
            *("-econtent_type", "1.2.840.113549.1.9.16.1.4", "-in", "told"),
            *("-signer", "signer", "-outform", "DER", "-out", "signed"),
        )
        token = b"\x30\x03\x02\x01\x00" + (folder / "signed").read_bytes()
    assert 2**8 <= len(token) < 2**16
    return base64.b64encode(b"\x30\x82" + len(token).to_bytes(2, "big") + token).decode()


def stamped(envelope: bytes, authority: Authority) -> bytes:
    """The envelope with a timestamp beside its first signature."""
    key_id = json.loads(envelope)["signatures"][0]["keyid"]
    return add_timestamps(authority.command, envelope, key_id)


def timestamp_in(envelope: bytes) -> str:
    return json.loads(envelope)["signatures"][0]["timestamp"]


def with_timestamp(envelope: bytes, timestamp: str) -> bytes:
    document = json.loads(envelope)
    document["signatures"][0]["timestamp"] = timestamp
    return json.dumps(document).encode()


def answer_to(message: bytes, authority: Authority) -> str:
    """A timestamp of any message, in base64."""
    import rfc3161_client

    query = rfc3161_client.TimestampRequestBuilder(
        data=message, hash_algorithm=rfc3161_client.base.HashAlgorithm.SHA256
    ).build()
    done = subprocess.run(
        authority.command.split(), input=query.as_bytes(), capture_output=True, check=True
    )
    return base64.b64encode(done.stdout).decode()
