"""An OCI 1.1 registry in this process, for faults: what it does wrong is added request by request.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md, with referrers, mounts, and
uploads that really resume, which Debian's docker-registry has not.
"""

import base64
import hashlib
import itertools
import json
import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
PATH = re.compile(r"/v2/(?P<repo>.+?)/(?P<kind>manifests|blobs|referrers|tags)/(?P<name>.*)")


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Asked:
    """A request as it came."""

    def __init__(self, method: str, path: str, headers: dict[str, str]) -> None:
        self.method, self.path, self.headers = method, path, headers

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")


class OciServer(ThreadingHTTPServer):
    """faults: each is given a request before it is served, and says whether it has served it.
    asked: every request.  referrers: whether it has that API.  password, token: what it wants.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.lock = threading.Lock()
        self.asked: list[Asked] = []
        self.faults: list[Callable[[Handler], bool]] = []
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.upload_numbers = itertools.count()
        self.referrers = True
        self.password = self.token = self.realm = ""
        self.scopes: list[list[str]] = []
        self.cut_body_at: int | None = None
        self.sent_bytes = 0  # by faults that count them
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def count(self, method: str, text: str) -> int:
        """Return how many requests of this method have the text in their path."""
        return sum(each.method == method and text in each.path for each in self.asked)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """A body is sent after its head: the system would keep it until the client's has said that the
    head arrived, 40 ms later.
    """

    server: OciServer
    query: dict[str, list[str]]

    def route(self) -> None:
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            self.server.asked.append(Asked(self.command, self.path, headers))
        self.taken = False
        for fault in list(self.server.faults):
            if fault(self):
                return
        if parts.path == "/token":
            self.give_token(headers)
            return
        if not self.let_in(headers):
            return
        found = PATH.fullmatch(parts.path)
        if parts.path == "/v2/":  # what `docker login` asks
            self.answer(200)
            return
        if found is None:
            self.answer(404)
            return
        with self.server.lock:
            kind = "uploads" if found["name"].startswith("uploads/") else found["kind"]
            serve = getattr(self, f"{self.command}_{kind}", None)
            if serve is None:
                self.answer(405)
            else:
                serve(found["repo"], found["name"].removeprefix("uploads/"))

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = route

    def let_in(self, headers: dict[str, str]) -> bool:
        server = self.server
        given = headers.get("authorization", "")
        if server.password and not server.token:
            wanted = f"Basic {base64.b64encode(server.password.encode()).decode()}"
            if given != wanted:
                self.answer(401, headers={"WWW-Authenticate": 'Basic realm="here"'})
                return False
        if server.token and given != f"Bearer {server.token}":
            realm = server.realm or f"http://{server.address}/token"
            scope = "repository:models/digits:pull"
            says = f'Bearer realm="{realm}",service="here",scope="{scope}"'
            self.answer(401, headers={"WWW-Authenticate": says})
            return False
        return True

    def give_token(self, headers: dict[str, str]) -> None:
        wanted = f"Basic {base64.b64encode(self.server.password.encode()).decode()}"
        self.server.scopes.append(self.query.get("scope", []))
        if self.server.password and headers.get("authorization") != wanted:
            self.answer(401)
        else:
            self.answer(200, json.dumps({"token": self.server.token}).encode())

    def body(self) -> bytes:
        """Return what was sent; as far as it goes, where the server breaks off."""
        self.taken = True
        size = int(self.headers.get("Content-Length", 0))
        return self.rfile.read(size)

    def GET_manifests(self, repo: str, name: str) -> None:
        found = self.server.manifests.get((repo, name))
        if found is None:
            self.answer(404)
            return
        about = {"Content-Type": found[1], "Docker-Content-Digest": sha256(found[0])}
        self.answer(200, found[0], about)

    HEAD_manifests = GET_manifests

    def PUT_manifests(self, repo: str, name: str) -> None:
        data = self.body()
        server, kind = self.server, self.headers.get("Content-Type", "")
        document = json.loads(data)
        parts = [*document.get("layers", []), *filter(None, [document.get("config")])]
        if not all((repo, part["digest"]) in server.blobs for part in parts):
            self.answer(400, b'{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]}')
            return
        listed = document.get("manifests", []) if not name.startswith("sha256-") else []
        if not all((repo, each["digest"]) in server.manifests for each in listed):
            self.answer(400, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
            return
        for each in (name, sha256(data)):
            server.manifests[repo, each] = (data, kind)
        subject = document.get("subject", {}).get("digest", "")
        self.answer(201, headers={"OCI-Subject": subject} if subject and server.referrers else {})

    def GET_referrers(self, repo: str, name: str) -> None:
        if not self.server.referrers:
            self.answer(404, b"404 page not found")
            return
        listed = {}
        for (where, _), (data, kind) in self.server.manifests.items():
            document = json.loads(data)
            if where == repo and document.get("subject", {}).get("digest") == name:
                listed[sha256(data)] = {
                    "mediaType": kind,
                    "digest": sha256(data),
                    "size": len(data),
                    "artifactType": document.get("artifactType", ""),
                }
        body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(listed.values())}
        self.answer(200, json.dumps(body).encode())

    def GET_tags(self, repo: str, name: str) -> None:
        tags = [n for where, n in self.server.manifests if where == repo and ":" not in n]
        self.answer(200, json.dumps({"name": repo, "tags": tags}).encode())

    def HEAD_blobs(self, repo: str, name: str) -> None:
        data = self.server.blobs.get((repo, name))
        self.answer(404) if data is None else self.answer(200, data)

    def GET_blobs(self, repo: str, name: str) -> None:
        data = self.server.blobs.get((repo, name))
        if data is None:
            self.answer(404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if start >= len(data) > 0:
            self.answer(416)
            return
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if asked else {}
        self.answer(206 if asked else 200, data[start:], headers)

    def POST_uploads(self, repo: str, name: str) -> None:
        self.body()
        digest, source = (self.query.get(key, [""])[0] for key in ("mount", "from"))
        if (source, digest) in self.server.blobs:
            self.server.blobs[repo, digest] = self.server.blobs[source, digest]
            self.answer(201)
            return
        place = f"u{next(self.server.upload_numbers)}"
        self.server.uploads[place] = bytearray()
        self.answer(202, headers={"Location": f"/v2/{repo}/blobs/uploads/{place}?state=0"})

    def GET_uploads(self, repo: str, name: str) -> None:
        there = self.server.uploads.get(name)
        if there is None:
            self.answer(404)
            return
        self.answer(204, headers=self.reached(repo, name, there))

    def reached(self, repo: str, name: str, there: bytearray) -> dict[str, str]:
        location = f"/v2/{repo}/blobs/uploads/{name}?state={len(there)}"
        return {"Location": location, "Range": f"0-{max(0, len(there) - 1)}"}

    def PATCH_uploads(self, repo: str, name: str) -> None:
        there = self.server.uploads.get(name)
        if there is None:
            self.answer(404)
            return
        start = int(self.headers["Content-Range"].partition("-")[0])
        if start != len(there):
            self.answer(416, headers=self.reached(repo, name, there))
            return
        if self.server.cut_body_at is not None:
            there += self.rfile.read(self.server.cut_body_at)
            self.server.cut_body_at = None
            self.hang_up()
            return
        there += self.body()
        self.answer(202, headers=self.reached(repo, name, there))

    def PUT_uploads(self, repo: str, name: str) -> None:
        there = self.server.uploads.pop(name, None)
        data = self.body()
        digest = self.query["digest"][0]
        if there is None:
            self.answer(404)
        elif sha256(bytes(there) + data) != digest:
            self.answer(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
        else:
            self.server.blobs[repo, digest] = bytes(there) + data
            self.answer(201, headers={"Location": f"/v2/{repo}/blobs/{digest}"})

    def hang_up(self) -> None:
        """Without a word."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(2)

    def answer(
        self, code: int, data: bytes = b"", headers: dict[str, str] | None = None, keep: bool = True
    ) -> None:
        if self.command in ("PUT", "POST", "PATCH") and not self.taken:
            keep = False
            self.close_connection = True
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}) and code != 204:
            self.send_header("Content-Length", str(len(data)))
        if not keep:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass
