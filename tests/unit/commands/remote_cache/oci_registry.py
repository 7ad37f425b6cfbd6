"""`python oci_registry.py FOLDER MODE`: a registry as the OCI distribution specification has it, as
far as entries of a cache need it; prints its port.

MODE: "open"; "basic" wants me:secret; "token" wants a token, which it gives to me:secret;
"elsewhere" wants that too, and sends readers of blobs to another host, which wants no token.
"no token" gives something else for one. "local" sends them to a file of their own host. "tokens"
wants any token of the server that the file `realm` names. "no upload", "no place", "no blob" and
"no tag" fail at that step of a push.
Each upload that is begun adds a byte to the file `uploads`.
"""

from __future__ import annotations

import base64
import json
import sys
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

FOLDER, MODE = Path(sys.argv[1]), sys.argv[2]
BASIC = "Basic " + base64.b64encode(b"me:secret").decode()
TOKEN = "Bearer t0ken"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits 40 ms for the client to have its head

    def route(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        given = self.headers.get("Authorization", "")
        if parts.path == "/token":
            asked = query == {"service": "here", "scope": "repository:team/cache:pull,push"}
            token = [] if MODE == "no token" else {"token": "t0ken"}
            self.answer(200, json.dumps(token)) if given == BASIC and asked else (self.answer(401))
            return
        if parts.path.startswith("/storage/"):
            path = FOLDER / parts.path.removeprefix("/storage/")
            self.answer(400, "a secret was sent") if given else self.answer(200, path.read_bytes())
            return
        wanted = TOKEN if MODE in ("token", "elsewhere", "no token") else ""
        wanted = BASIC if MODE == "basic" else wanted
        accepted = given.startswith("Bearer ey") if MODE == "tokens" else given == wanted
        if not accepted:
            realm = f"http://127.0.0.1:{self.server.server_port}/token"
            if MODE == "tokens":
                realm = (FOLDER / "realm").read_text()
            scope = 'service="here",scope="repository:team/cache:pull,push"'
            challenge = 'Basic realm="x"' if MODE == "basic" else f'Bearer realm="{realm}",{scope}'
            self.answer(401, headers={"WWW-Authenticate": challenge})
            return
        prefix, _, rest = parts.path.partition("/team/cache/")
        assert prefix == "/v2", self.path
        kind, _, name = rest.partition("/")
        getattr(self, f"{self.command}_{kind}")(name, data, query)

    do_GET = do_HEAD = do_PUT = do_POST = route

    def GET_manifests(self, name: str, data: bytes, query: dict[str, str]) -> None:
        path = FOLDER / f"tag-{name}"
        self.answer(200, path.read_bytes()) if path.exists() else self.answer(404)

    def PUT_manifests(self, name: str, data: bytes, query: dict[str, str]) -> None:
        manifest = json.loads(data)
        for part in (manifest["config"], *manifest["layers"]):
            stored = (FOLDER / part["digest"]).read_bytes()
            assert len(stored) == part["size"]
        assert self.headers["Content-Type"] == manifest["mediaType"]
        (FOLDER / f"tag-{name}").write_bytes(data)
        self.answer(507 if MODE == "no tag" else 201)

    def HEAD_blobs(self, name: str, data: bytes, query: dict[str, str]) -> None:
        self.answer(200 if (FOLDER / name).exists() else 404)

    def GET_blobs(self, name: str, data: bytes, query: dict[str, str]) -> None:
        if not (FOLDER / name).exists():
            self.answer(404)
        elif MODE == "elsewhere":
            there = f"http://localhost:{self.server.server_port}/storage/{name}"
            self.answer(307, headers={"Location": there})
        elif MODE == "local":
            self.answer(307, headers={"Location": (FOLDER / name).as_uri()})
        else:
            self.answer(200, (FOLDER / name).read_bytes())

    def POST_blobs(self, name: str, data: bytes, query: dict[str, str]) -> None:
        assert name == "uploads/"
        with (FOLDER / "uploads").open("ab") as file:
            file.write(b".")
        place = {"Location": "/v2/team/cache/blobs/uploads/1?state=x"}
        self.answer(
            507 if MODE == "no upload" else 202, headers={} if MODE == "no place" else place
        )

    def PUT_blobs(self, name: str, data: bytes, query: dict[str, str]) -> None:
        assert name == "uploads/1" and query["state"] == "x"
        assert query["digest"] == f"sha256:{sha256(data).hexdigest()}"
        (FOLDER / query["digest"]).write_bytes(data)
        self.answer(507 if MODE == "no blob" else 201)

    def answer(
        self, code: int, data: bytes | str = b"", headers: dict[str, str] | None = None
    ) -> None:
        body = data.encode() if isinstance(data, str) else data
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
