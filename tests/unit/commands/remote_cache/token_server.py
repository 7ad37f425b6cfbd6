"""`python token_server.py FOLDER MODE`: a token server as registries of the distribution project
name one, over TLS; prints its port. Writes `tokens.pem` into the folder, the certificate of both
its TLS and its tokens; gives tokens to me:secret alone.

https://distribution.github.io/distribution/spec/auth/jwt/
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

FOLDER = Path(sys.argv[1])
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])

key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
now = datetime.now(UTC)
certificate = (
    x509.CertificateBuilder()
    .subject_name(NAME)
    .issuer_name(NAME)
    .public_key(key.public_key())
    .serial_number(1)
    .not_valid_before(now - timedelta(days=1))
    .not_valid_after(now + timedelta(days=1))
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    .add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    )
    .sign(key, hashes.SHA256())
)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(service: str, scopes: list[str]) -> str:
    """RS256, with the certificate beside it."""
    der = certificate.public_bytes(serialization.Encoding.DER)
    head = {"alg": "RS256", "typ": "JWT", "x5c": [base64.b64encode(der).decode()]}
    access = []
    for scope in scopes:
        kind, name, actions = scope.split(":")
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    seconds = int(time.time())
    claims = {
        "iss": "tokens",
        "sub": "me",
        "aud": service,
        "exp": seconds + 300,
        "nbf": seconds - 10,
        "iat": seconds,
        "jti": "1",
        "access": access,
    }
    signed = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or a body waits 40 ms for the client to have its head

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if self.headers.get("Authorization") != BASIC:
            self.send_response(401)
            self.end_headers()
            return
        body = json.dumps({"token": token(query["service"][0], query.get("scope", []))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


(FOLDER / "tokens.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
(FOLDER / "tokens.key").write_bytes(
    key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(FOLDER / "tokens.pem", FOLDER / "tokens.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
