"""Google's and Azure's services as their own libraries reach them, unchanged: through a proxy.

Their libraries take neither an address nor an authority of a caller from securesystemslib, but the
proxy and the roots that the environment names. The proxy leads the services' names to servers of
the tests, whose certificate states these names.
"""

import json
import socket
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from tls_server import listening

DIGEST = ec.ECDSA(Prehashed(hashes.SHA256()))
"""Both services are sent a digest."""

GOOGLE, VAULT, LOGIN = (
    "cloudkms.googleapis.com",
    "aotc-tests.vault.azure.net",
    "login.microsoftonline.com",
)
VERSION = "projects/p/locations/global/keyRings/r/cryptoKeys/release/cryptoKeyVersions/1"
KEY_ID = f"https://{VAULT}/keys/release/0123456789abcdef0123456789abcdef"


class JsonHandler(BaseHTTPRequestHandler):
    """A handler that answers with JSON."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def asked(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, document: object, status: int = 200, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def proxy_to(ports: Mapping[str, int]) -> Iterator[str]:
    """An HTTP proxy that leads these hosts to ports of loopback, and no others anywhere."""

    class Proxy(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_CONNECT(self) -> None:
            host, _, port = self.path.partition(":")
            if port != "443" or host not in ports:
                self.send_error(502)
                return
            with socket.create_connection(("127.0.0.1", ports[host])) as server:
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                with ThreadPoolExecutor(1) as backwards:
                    backwards.submit(_copy, server, self.connection)
                    _copy(self.connection, server)

    with listening(Proxy) as port:
        yield f"http://127.0.0.1:{port}"


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def azure(key: ec.EllipticCurvePrivateKey) -> type[BaseHTTPRequestHandler]:
    """Return a vault with one key, and the login that its clients get their tokens from."""
    numbers = key.public_key().public_numbers()
    curve = {"x": _url(numbers.x.to_bytes(32)), "y": _url(numbers.y.to_bytes(32))}
    document = {
        "key": {"kid": KEY_ID, "kty": "EC", "crv": "P-256", "key_ops": ["sign", "verify"], **curve},
        "attributes": {"enabled": True},
    }

    class Azure(JsonHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if self.headers["Host"] == LOGIN:
                base = f"https://{LOGIN}/tenant"
                oauth = f"{base}/oauth2/v2.0"
                self.answer(
                    {
                        "issuer": f"{base}/v2.0",
                        "authorization_endpoint": f"{oauth}/authorize",
                        "token_endpoint": f"{oauth}/token",
                        "metadata": [],
                    }
                )
            elif self._is_allowed():
                is_here = path in ("/keys/release", KEY_ID.removeprefix(f"https://{VAULT}"))
                missing = {"error": {"code": "KeyNotFound", "message": "no such key"}}
                self.answer(document if is_here else missing, 200 if is_here else 404)

        def do_POST(self) -> None:
            asked = self.asked()
            if self.headers["Host"] == LOGIN:
                assert b"client_secret=secret" in asked
                self.answer({"token_type": "Bearer", "expires_in": 3600, "access_token": "token"})
            elif self._is_allowed():
                assert self.path.startswith(f"{KEY_ID.removeprefix(f'https://{VAULT}')}/sign")
                stated = json.loads(asked)
                assert stated["alg"] == "ES256"
                digest = urlsafe_b64decode(stated["value"] + "=" * (-len(stated["value"]) % 4))
                r, s = decode_dss_signature(key.sign(digest, DIGEST))
                self.answer({"kid": KEY_ID, "value": _url(r.to_bytes(32) + s.to_bytes(32))})

        def _is_allowed(self) -> bool:
            if self.headers["Authorization"] == "Bearer token":
                return True
            asks = f'Bearer authorization="https://{LOGIN}/tenant", '
            asks += 'resource="https://vault.azure.net"'
            self.answer({}, 401, WWW_Authenticate=asks)
            return False

    return Azure


@contextmanager
def google(key: ec.EllipticCurvePrivateKey, folder: Path) -> Iterator[int]:
    """Serve the two methods that signing takes, with the certificate in a folder; yields the port.

    `account.json` in the folder then has credentials.
    """
    import grpc
    from google.cloud.kms_v1 import types

    algorithm = types.CryptoKeyVersion.CryptoKeyVersionAlgorithm.EC_SIGN_P256_SHA256
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, spki)

    def get(request: Any, context: Any) -> Any:
        if request.name != VERSION:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        assert request.public_key_format == types.PublicKey.PublicKeyFormat.PEM
        data = types.ChecksummedData(data=pem)
        return types.PublicKey(name=VERSION, public_key=data, algorithm=algorithm)

    def sign(request: Any, context: Any) -> Any:
        assert dict(context.invocation_metadata())["authorization"].startswith("Bearer ")
        assert request.name == VERSION
        return types.AsymmetricSignResponse(signature=key.sign(request.digest.sha256, DIGEST))

    def method(call: Any, request: Any, response: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(call, request.deserialize, response.serialize)

    methods = {
        "GetPublicKey": method(get, types.GetPublicKeyRequest, types.PublicKey),
        "AsymmetricSign": method(sign, types.AsymmetricSignRequest, types.AsymmetricSignResponse),
    }
    server, service = grpc.server(ThreadPoolExecutor(2)), "google.cloud.kms.v1.KeyManagementService"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, methods)])
    stated = (folder / "tls.key").read_bytes(), (folder / "ca.pem").read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([stated]))
    server.start()
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "client_email": "tests@p.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    (folder / "account.json").write_text(json.dumps(account))
    yield port
    server.stop(None)


def _url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
