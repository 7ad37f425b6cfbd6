"""Servers of the tests, and their certificates of TLS."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@contextmanager
def listening(
    handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Serve on loopback; yields the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def tls_context(folder: Path, *names: str) -> ssl.SSLContext:
    """Return a server's context for names, or else for loopback's address.

    `ca.pem` in the folder, its certificate, is its own authority, and `tls.key` its key.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.now(UTC)
    others = "content_commitment key_encipherment data_encipherment key_agreement crl_sign"
    no = dict.fromkeys([*others.split(), "encipher_only", "decipher_only"], False)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1)
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    for extension, critical in (
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, **no), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.SubjectAlternativeName([_general(n) for n in names or ("127.0.0.1",)]), False),
    ):
        made = made.add_extension(extension, critical)
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(*kinds, plain))
    (folder / "ca.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(kinds[0]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "tls.key")
    return context


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
