"""Fulcio, Rekor and a timestamp authority over HTTP, in which sigstore-python signs.

Each answers as https://github.com/sigstore/fulcio, rekor, rekor-tiles and timestamp-authority do.
"""

import base64
import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sigstore.dsse import Statement
from sigstore.models import ClientTrustConfig
from sigstore.oidc import IdentityToken
from sigstore.sign import SigningContext

from tests.hostile.channels import serving
from tests.hostile.identities import IDENTITY, ISSUER, Sigstore

FULCIO, TIMESTAMPS = "/api/v2/signingCert", "/api/v1/timestamp"
REKOR = {1: "/api/v1/log/entries", 2: "/api/v2/log/entries"}
SECRET = secrets.token_hex()
"""Signs the tokens of the issuer of identities."""


def token() -> IdentityToken:
    now = datetime.now(UTC)
    claims = {"iss": ISSUER, "sub": IDENTITY, "aud": "sigstore", "iat": now}
    return IdentityToken(jwt.encode({**claims, "exp": now + timedelta(minutes=5)}, SECRET))


def certified(here: Sigstore, asked: dict[str, Any], token: str) -> dict[str, Any]:
    wanted = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
    assert wanted.is_signature_valid
    by = jwt.decode(token.removeprefix("Bearer "), SECRET, ["HS256"], audience="sigstore")
    chain = [here.certificate(wanted, by["sub"], by["iss"]), here.root()]
    texts = [each.public_bytes(Encoding.PEM).decode() for each in chain]
    return {"signedCertificateEmbeddedSct": {"chain": {"certificates": texts}}}


def logged(here: Sigstore, asked: dict[str, Any]) -> dict[str, Any]:
    content = asked["spec"]["proposedContent"]
    envelope = json.loads(content["envelope"])
    given = envelope["payload"], envelope["signatures"][0]["sig"], content["verifiers"][0]
    entry = here.entry(*map(base64.b64decode, given))
    proof = entry["inclusionProof"]
    proved = {
        "checkpoint": proof["checkpoint"]["envelope"],
        "hashes": [],
        "logIndex": int(proof["logIndex"]),
        "rootHash": base64.b64decode(proof["rootHash"]).hex(),
        "treeSize": int(proof["treeSize"]),
    }
    stated = {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(entry["integratedTime"]),
        "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
        "logIndex": int(entry["logIndex"]),
        "verification": {"inclusionProof": proved, **entry["inclusionPromise"]},
    }
    return {secrets.token_hex(40): stated}


def logged_v2(here: Sigstore, asked: dict[str, Any]) -> dict[str, Any]:
    record = asked["hashedRekordRequestV002"]
    content, verifier = record["signature"]["content"], record["signature"]["verifier"]
    given = record["digest"], content, verifier["x509Certificate"]["rawBytes"]
    return here.entry_v2(*map(base64.b64decode, given))


def answer(here: Sigstore, request: BaseHTTPRequestHandler) -> None:
    data = request.rfile.read(int(request.headers["Content-Length"]))
    if request.path == TIMESTAMPS and here.timestamps:
        words = here.timestamps.command.split()
        data = subprocess.run(words, input=data, capture_output=True, check=True).stdout
    elif request.path == FULCIO:
        by = request.headers["Authorization"]
        data = json.dumps(certified(here, json.loads(data), by)).encode()
    else:
        log = {REKOR[1]: logged, REKOR[2]: logged_v2}[request.path]
        data = json.dumps(log(here, json.loads(data))).encode()
    request.send_response(201)
    request.end_headers()
    request.wfile.write(data)


@contextmanager
def signing(here: Sigstore, rekor: int) -> Iterator[Callable[[bytes], dict[str, Any]]]:
    """Yield a function that signs a statement by sigstore-python as the identity of the tests."""
    with serving(partial(answer, here)) as url:

        def service(version: int, place: str = "") -> list[dict[str, Any]]:
            since = {"start": "2026-01-01T00:00:00Z"}
            made = {"url": url.rstrip("/") + place, "majorApiVersion": version, "validFor": since}
            return [{**made, "operator": "tests"}]

        config = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": service(1),
            "rekorTlogUrls": service(rekor),
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": service(1, TIMESTAMPS) if here.timestamps else [],
            "tsaConfig": {"selector": "ALL"},
        }
        trusted = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": json.loads(here.trusted_root()),
            "signingConfig": config,
        }
        context = SigningContext.from_trust_config(ClientTrustConfig.from_json(json.dumps(trusted)))
        with context.signer(token()) as signer:
            yield lambda payload: json.loads(signer.sign_dsse(Statement(payload)).to_json())
