"""A server of bundles in a process of its own, and a client of HTTP that knows nothing of ours."""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from waiting import SECONDS, until

Array = np.ndarray[Any, Any]


class Client:
    """Asks the server at a port of this machine."""

    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        connection: http.client.HTTPConnection | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        used = connection or self.connect()
        used.request(method, path, body, headers or {})
        answer = used.getresponse()
        data = answer.read()
        if connection is None:
            used.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, data

    def get(self, path: str) -> tuple[int, Any]:
        status, _, data = self.ask("GET", path)
        return status, json.loads(data)

    def post(self, path: str, document: Any = None) -> tuple[int, Any]:
        body = b"" if document is None else json.dumps(document).encode()
        status, _, data = self.ask("POST", path, body)
        return status, json.loads(data)

    def infer(
        self,
        model: str,
        inputs: dict[str, tuple[str, Array]],
        connection: http.client.HTTPConnection | None = None,
        **request: Any,
    ) -> tuple[int, dict[str, Any], dict[str, bytes]]:
        """Binary data both ways. inputs: datatype and array by name. The status, the JSON and the
        data of the outputs.
        """
        header, data = binary_request(inputs, **request)
        headers = {"Inference-Header-Content-Length": str(len(header))}
        status, told, answer = self.ask(
            "POST", f"/v2/models/{model}/infer", header + data, headers, connection
        )
        length = int(told.get("inference-header-content-length", len(answer)))
        document = json.loads(answer[:length])
        outputs = {}
        for output in document.get("outputs", ()):
            size = output["parameters"]["binary_data_size"]
            outputs[output["name"]] = answer[length : length + size]
            length += size
        assert length == len(answer)
        return status, document, outputs


class Served(Client):
    """A server that was started. events: what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        listening = self.wait_for("listening")
        self.port = int(listening["http"].rpartition(":")[2])
        self.grpc = listening.get("grpc", "")

    def held(self) -> set[float]:
        """Requests in flight of each model, and their bytes."""
        text = self.ask("GET", "/metrics")[2].decode()
        gauges = r"^aotc_server_in_flight_(?:requests\{.*\}|bytes) (\S+)"
        return {float(number) for number in re.findall(gauges, text, re.M)}

    def gauge(self, name: str) -> float:
        """Return the only number under a name of the server's metrics."""
        text = self.ask("GET", "/metrics")[2].decode()
        (found,) = re.findall(rf"^aotc_server_{name} (\S+)", text, re.MULTILINE)
        return float(found)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            document = json.loads(line)
            # What a server ends with for an error is a document, which has no time.
            assert "event" not in document or document.pop("time").endswith("Z")
            self.events.append(document)

    def read_all(self) -> None:
        """Everything that a process has said which has ended."""
        self._reader.join(SECONDS)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self.events) if each.get("event") == event]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """The event, once it was said so many times."""
        until(lambda: len(self.said(event)) >= count, f"it says {event}", self.process)
        return self.said(event)[count - 1]


def binary_request(inputs: dict[str, tuple[str, Array]], **request: Any) -> tuple[bytes, bytes]:
    """The JSON, and the data behind it."""
    described = [
        {
            "name": name,
            "datatype": datatype,
            "shape": array.shape,
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, (datatype, array) in inputs.items()
    ]
    document = {"inputs": described, "parameters": {"binary_data_output": True}, **request}
    return json.dumps(document).encode(), b"".join(a.tobytes() for _, a in inputs.values())


@contextmanager
def serving(
    bundles: Sequence[Path | str],
    policies: Sequence[Path],
    *options: str,
    ready: bool = True,
    python: Path | str = sys.executable,
) -> Iterator[Served]:
    """A server that has ended after the block, killed if it did not end by itself."""
    command = [str(python), "-m", "aotc_runtime", "serve", *map(str, bundles), "--json"]
    for policy in policies:
        command += ["--trust", str(policy)]
    command += ["--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            served = Served(process)
            if ready:
                served.wait_for("ready")
            yield served
        finally:
            process.kill()
            process.wait()
