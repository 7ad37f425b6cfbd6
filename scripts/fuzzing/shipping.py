"""Readers of what registries answer, of a store's files, and of what clients send to a server."""

import io
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import urllib3
from urllib3 import HTTPHeaderDict

from aotc_runtime.base.digest import is_digest, sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats import oci_layout
from aotc_runtime.formats.protobuf_wire import WireError
from aotc_runtime.formats.safetensors_reader import numpy_dtype
from aotc_runtime.schema.bundle_manifest import DType
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root
from aotc_serve.grpc import grpc_inference, grpc_messages
from aotc_serve.grpc.grpc_wire import read_request as read_message
from aotc_serve.http.json_inference import prepare, read_request
from aotc_serve.http_client import NO_PROGRESS, Body, HttpClient, Progress, Response, _Transfer
from aotc_serve.inference.protocol_tensors import Port, datatype_of, take_nothing
from aotc_serve.oci.docker_credentials import Credentials, credentials_for
from aotc_serve.oci.oci_references import parse
from aotc_serve.oci.registry_authentication import Login
from aotc_serve.oci.registry_blobs import fetch_blob, push_blob
from aotc_serve.oci.registry_client import Repository, RetryLimits
from aotc_serve.oci.registry_listing import (
    Memory,
    fetch_attestations,
    fetch_documents,
    resolve,
    tags,
)
from aotc_serve.store.blob_files import BLOBS, BUNDLES
from aotc_serve.store.store_pull import pull
from aotc_serve.store.stored_bundles import RECORD, Store
from tests.memory_files import kept_folder

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "layers.aotb"
PLACE = "oci://127.0.0.1:1/models/digits:1.0.0"
BASE = "/v2/models/digits/"
EAGER = RetryLimits(2, 0.0, 0.0)
TENSOR_BYTES_MAX = 2**20


@cache
def _blobs() -> Mapping[str, bytes]:
    source = open_bundle(GOLDEN)
    return {digest: bytes(source.blob(digest) or b"") for digest in sorted(source.digests())}


@cache
def _root() -> str:
    return read_root(open_bundle(GOLDEN)).entry.digest


@cache
def _attestations() -> tuple[str, ...]:
    return tuple(entry.digest for entry in read_root(open_bundle(GOLDEN)).attestations)


def _http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    stated = {"Content-Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{k.replace('_', '-')}: {v}" for k, v in stated.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


class _Wire(HttpClient):
    """A registry with one bundle: what it sends, as bytes.

    `changed` is what it sends instead, by the beginning of a path below the repository; "" for
    everything. `challenge` is its answer to a request without a token.
    """

    def __init__(self, changed: Mapping[str, bytes], challenge: str = "") -> None:
        super().__init__()
        self._changed, self._challenge = changed, challenge

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        progress: Progress = NO_PROGRESS,
        stall_seconds: float | None = None,
    ) -> Response:
        path = urlsplit(url).path.removeprefix(BASE)
        changed = (sent for begin, sent in self._changed.items() if path.startswith(begin))
        sent = next(changed, None)
        if (
            self._challenge
            and path != "/token"
            and "Bearer" not in headers.get("Authorization", "")
        ):
            sent = _http(b"", "401 Unauthorized", WWW_Authenticate=self._challenge)
        response = HTTPResponse(_socket(self._good(path) if sent is None else sent), method=method)
        try:
            response.begin()
        except HTTPException as error:
            raise ConnectionError from error
        found = urllib3.HTTPResponse(
            response,
            HTTPHeaderDict(response.msg.items()),
            response.status,
            reason=response.reason,
            preload_content=False,
            decode_content=False,
            original_response=response,
            request_method=method,
        )
        return Response(found, _Transfer(1.0, float("inf")), progress, lambda: None)

    def wait(self, seconds: float) -> None:
        """Nobody waits here."""

    def _good(self, path: str) -> bytes:
        kind, _, name = path.partition("/")
        if kind == "referrers":
            return _http(_referrers(_attestations()))
        digest = _root() if name == "1.0.0" else name
        if kind in ("manifests", "blobs") and digest in _blobs():
            return _http(_blobs()[digest])
        return _http(b"", "404 Not Found")


def _socket(data: bytes) -> socket.socket:
    return cast(socket.socket, SimpleNamespace(makefile=lambda mode: io.BytesIO(data)))


def _referrers(digests: tuple[str, ...]) -> bytes:
    listed = [
        {"mediaType": oci_layout.MANIFEST_TYPE, "digest": each, "size": 1, "artifactType": ""}
        for each in digests
    ]
    return json.dumps({"schemaVersion": 2, "manifests": listed}).encode()


def _there(changed: Mapping[str, bytes], challenge: str = "") -> Repository:
    known = Credentials("me", "secret")
    return Repository(parse(PLACE), _Wire(changed, challenge), lambda: known, EAGER)


def _look(changed: Mapping[str, bytes], challenge: str = "") -> None:
    with _there(changed, challenge) as there:
        listing = fetch_documents(there, fetch_attestations(there, resolve(there)))
    assert all(sha256(data) == digest for digest, data in listing.documents.items())


def registry_answer(data: bytes) -> None:
    """Whatever is asked for: head and body."""
    with _there({"": data}) as there:
        for ask in (
            lambda: fetch_documents(there, fetch_attestations(there, resolve(there))),
            lambda: tags(there, "x"),
            lambda: _fetch(there),
            lambda: push_blob(there, sha256(b"a blob"), memoryview(b"a blob"), ("others/x",)),
            lambda: push_blob(
                there, sha256(b"a blob"), memoryview(b"a blob"), (), NO_PROGRESS, chunk_bytes=2
            ),
            lambda: there.put_manifest("x", b"{}", oci_layout.INDEX_TYPE),
        ):
            with suppress(AotcError):
                ask()


def _fetch(there: Repository) -> None:
    digest, data = next(iter(_blobs().items()))
    sink = Memory()
    fetch_blob(there, digest, len(data), sink)
    assert bytes(sink) == data


def registry_root(data: bytes) -> None:
    """Manifest that a tag names."""
    _look({"manifests/1.0.0": _http(data)})


def registry_referrers(data: bytes) -> None:
    """Referrers of a bundle, by the API and by the tag in its place."""
    for begin in ("referrers/", f"manifests/{_root().replace(':', '-')}"):
        _look({begin: _http(data)})


def registry_attestation(data: bytes) -> None:
    """Attachments of a bundle."""
    digest = sha256(data)
    _look({"referrers/": _http(_referrers((digest,))), f"manifests/{digest}": _http(data)})


def registry_tags(data: bytes) -> None:
    none = _http(b"", "404 Not Found")
    _look({"referrers/": none, "tags/": _http(data)})


def registry_token(data: bytes) -> None:
    """Answer of a token server; the registry wants a token."""
    wanted = 'Bearer realm="http://127.0.0.1:1/token",service="here",scope="x"'
    _look({"/token": _http(data)}, wanted)


def registry_challenge(data: bytes) -> None:
    """Challenge of a registry that wants credentials."""
    transport = _Wire({"": _http(b'{"token": "t"}')})
    login = Login(transport, "http://127.0.0.1:1", "x", lambda: Credentials("me", "secret"))
    with suppress(OSError):
        login.authenticate("pull", data.decode("latin-1"), {}, NO_PROGRESS)


def registry_login(data: bytes) -> None:
    """File that `docker login` has left. Helpers are not asked: they are programs."""
    with suppress(ValueError, RecursionError):
        if isinstance(document := json.loads(data), dict):
            document.pop("credsStore", None)
            document.pop("credHelpers", None)
            data = json.dumps(document).encode()
    if b"creds" in data or b"cred\\u" in data:
        return
    path = Path(kept_folder().name, "config.json")
    path.write_bytes(data)
    header = credentials_for("127.0.0.1:1", {"REGISTRY_AUTH_FILE": str(path)}).header
    assert all(value.isascii() for value in header.values())


def reference(data: bytes) -> None:
    with suppress(UnicodeDecodeError):
        place = parse(data.decode())
        assert parse(str(place)) == place and place.hostname in place.origin


@cache
def _store() -> Store:
    store = Store(Path(kept_folder().name, "store"))
    with _there({}) as there:
        pull(there, store)
    return store


def _of_store(path: Path, data: bytes) -> None:
    """A store one of whose files is another."""
    store, good = _store(), path.read_bytes()
    try:
        path.unlink()
        path.write_bytes(data)
        for found in store.bundles():
            assert is_digest(found.root.digest) and found.size_bytes >= 0
        source = store.source(_root(), "x")
        with suppress(AotcError):
            if source is not None:
                read_root(source)
        found_now = store.bundle(_root())
        if found_now is not None:
            store.keep(found_now.root, found_now.attestations)
    finally:
        path.unlink()
        path.write_bytes(good)


def store_record(data: bytes) -> None:
    """Manifest that lists the blobs of a bundle."""
    store = _store()
    _of_store(store.folder / BUNDLES / (_root().removeprefix("sha256:") + RECORD), data)


def store_blob(data: bytes) -> None:
    """A document under the name of another."""
    for digest in (_root(), *_attestations()):
        _of_store(_store().folder / BLOBS / digest.removeprefix("sha256:"), data)


def _model() -> Any:
    """An entry point as requests see it, with an input of each datatype."""
    shapes: dict[str, tuple[int, ...]] = {"x": (-1, 4), "y": (2,), "z": ()}
    kinds = {"x": DType.FLOAT32, "y": DType.INT4, "z": DType.BOOL}
    ports = tuple(
        Port(name, datatype_of(kind), numpy_dtype(kind), shapes[name])
        for name, kind in kinds.items()
    )
    places = {port.name: place for place, port in enumerate(ports)}
    return SimpleNamespace(
        name="digits", inputs=ports, outputs=ports, place_of=places, output_of=places
    )


MODEL = _model()


def inference_request(data: bytes) -> None:
    """A body: JSON up to the first line feed, and binary data behind it."""
    header, _, binary = data.partition(b"\n")
    found = prepare(MODEL, read_request(header), memoryview(binary), TENSOR_BYTES_MAX, take_nothing)
    for array, port in zip(found.arrays, MODEL.inputs, strict=True):
        assert array.dtype is port.dtype and array.nbytes <= TENSOR_BYTES_MAX


def grpc_request(data: bytes) -> None:
    """A message as it arrives; the server reads it itself."""
    with suppress(WireError):
        request = read_message(memoryview(data), take_nothing)
        found = grpc_inference.prepare(MODEL, request, TENSOR_BYTES_MAX, take_nothing)
        assert all(array.nbytes <= TENSOR_BYTES_MAX for array in found.arrays)


def _requests() -> Iterator[bytes]:
    tensors: list[dict[str, Any]] = [
        {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [[1.5, -2, 0, 1e9]]},
        {"name": "y", "shape": [2], "datatype": "INT4", "data": [-8, 7]},
        {"name": "z", "shape": [], "datatype": "BOOL", "data": [True]},
    ]
    yield json.dumps({"id": "1", "inputs": tensors, "outputs": [{"name": "z"}]}).encode()
    for tensor, size in zip(tensors, (16, 2, 1), strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": size}
    yield json.dumps({"inputs": tensors}).encode() + b"\n" + bytes(19)


def _grpc_requests() -> Iterator[bytes]:
    request = grpc_messages.InferRequest(model_name="digits")
    for name, kind, shape in (("x", "FP32", [1, 4]), ("y", "INT4", [2]), ("z", "BOOL", [])):
        request.inputs.add(name=name, datatype=kind, shape=shape)
    request.raw_input_contents.extend([bytes(16), bytes(2), bytes(1)])
    yield request.SerializeToString()


def seeds() -> Mapping[str, list[bytes]]:
    """By the reader's name."""
    root = _blobs()[_root()]
    record = _store().folder / BUNDLES / (_root().removeprefix("sha256:") + RECORD)
    challenge = b'Bearer realm="https://auth.invalid/token?a=b",service="here",scope="a b",x=y'
    login = {"auths": {"127.0.0.1:1": {"auth": "bWU6c2VjcmV0"}, "https://x/v1/": {}}}
    upload = {"Location": "/v2/models/digits/blobs/uploads/1?state=2", "Range": "0-1"}
    return {
        "registry_answer": [
            _http(root),
            _http(b"", "202 Accepted", **upload, OCI_Chunk_Min_Length="9"),
            _http(b"", "307 Temporary Redirect", Location="http://127.0.0.1:1/elsewhere"),
            _http(b"", "401 Unauthorized", WWW_Authenticate=challenge.decode()),
            _http(b"", "429 Too Many Requests", Retry_After="1"),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            _http(_referrers(_attestations()), Link='</v2/x/referrers/y?n=1>; rel="next"'),
        ],
        "registry_root": [root],
        "registry_referrers": [_referrers(_attestations())],
        "registry_attestation": [_blobs()[each] for each in _attestations()],
        "registry_tags": [b'{"name": "x", "tags": ["1.0.0", "sha256-0.x"]}'],
        "registry_token": [b'{"token": "t", "access_token": "t"}'],
        "registry_challenge": [challenge, b'Basic realm="here"'],
        "registry_login": [json.dumps(login).encode()],
        "reference": [PLACE.encode(), f"oci://[::1]:5000/a/b__c@{_root()}".encode()],
        "store_record": [record.read_bytes()],
        "store_blob": [root, *(_blobs()[each] for each in _attestations())],
        "inference_request": [*_requests()],
        "grpc_request": [*_grpc_requests()],
    }


READERS: Mapping[str, Callable[[bytes], object]] = {
    reader.__name__: reader
    for reader in (
        *(registry_answer, registry_root, registry_referrers, registry_attestation, registry_tags),
        *(registry_token, registry_challenge, registry_login, reference, store_record, store_blob),
        *(inference_request, grpc_request),
    )
}
