"""`python http_storage.py FOLDER MODE`: an HTTP server that keeps what is PUT; prints its port.

MODE: "good"; "silent" never answers; "trickle" sends a byte now and then; "stall" sends half of
what it has; "slow" sends 32 KiB now and then; "broken" says 500; "redirect" sends everybody to
another place; "endless" adds zeros to whatever it has, and writes into `sent` how many went away; a
number is the status that whoever PUTs is told.
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER, MODE = Path(sys.argv[1]), sys.argv[2]
ENDLESS_BYTES = 2**28
"""Enough to tell who reads on and on, and not more than a test has memory for."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits 40 ms for the client to have its head

    def do_GET(self) -> None:
        path = FOLDER / self.path.rpartition("/")[2]
        if self.refused():
            return
        if not path.exists():
            self.answer(404, b"")
            return
        if MODE == "trickle":
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            for byte in path.read_bytes():
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.1)
            return
        if MODE == "slow":
            data = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for start in range(0, len(data), 2**15):
                self.wfile.write(data[start : start + 2**15])
                time.sleep(0.2)
            return
        if MODE == "stall":
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            self.wfile.write(path.read_bytes()[: path.stat().st_size // 2])
            time.sleep(60)
        if MODE == "endless":
            self.send_endlessly(path.read_bytes())
            return
        self.answer(200, path.read_bytes())

    def send_endlessly(self, begin: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        sent = 0
        try:
            self.wfile.write(begin)
            while sent < ENDLESS_BYTES:
                sent += self.wfile.write(bytes(2**16))
        except OSError:
            pass
        self.close_connection = True
        (FOLDER / "sent.part").write_text(str(sent))
        (FOLDER / "sent.part").rename(FOLDER / "sent")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refused():
            return
        (FOLDER / "authorization").write_text(self.headers.get("Authorization", ""))
        (FOLDER / self.path.rpartition("/")[2]).write_bytes(data)
        self.answer(int(MODE) if MODE.isdigit() else 201, b"")

    def refused(self) -> bool:
        if MODE == "silent":
            time.sleep(60)
        if MODE == "broken":
            self.answer(500, b"")
        if self.path == "/visited":
            (FOLDER / "visited").write_text(self.headers.get("Authorization", ""))
        if MODE == "redirect":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/visited")
            self.send_header("Content-Length", "0")
            self.end_headers()
        return MODE in ("silent", "broken", "redirect")

    def answer(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
