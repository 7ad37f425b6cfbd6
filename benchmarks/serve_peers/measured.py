"""Clients of REST and gRPC, and what they measured."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.serve import Client, Listening
from benchmarks.serve_peers.models import Array, Call, Ported

Requests = Sequence[Sequence[Array]]
Ask = Callable[[int], object]
"""Asks for the answer to the request of this number."""

DTYPES = {"FP32": np.float32, "INT32": np.int32}
RTOL, ATOL = 1e-3, 1e-4


class Way(NamedTuple):
    """Way to ask a model. clients: number of connections.  first: answer of the first request."""

    clients: Callable[[int], list[Ask]]
    first: Callable[[], Sequence[Array]]


def in_process(call: Call, requests: Requests) -> Way:
    """Without a server."""
    return Way(
        lambda count: [lambda number: call(requests[number % len(requests)])] * count,
        lambda: call(requests[0]),
    )


def _body(model: Ported, arrays: Sequence[Array]) -> tuple[bytes, bytes]:
    inputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": array.shape,
            "parameters": {"binary_data_size": array.nbytes},
        }
        for (name, datatype), array in zip(model.inputs, arrays, strict=True)
    ]
    document = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    header = json.dumps(document).encode()
    return header, b"".join([header, *(array.tobytes() for array in arrays)])


def over_rest(port: int, model: Ported, requests: Requests) -> Way:
    """Binary tensors both ways."""
    address, sent = f"/v2/models/{model.model}/infer", []
    for header, body in (_body(model, arrays) for arrays in requests):
        head = (
            f"POST {address} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
            f"Inference-Header-Content-Length: {len(header)}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sent.append(head.encode() + body)

    def ask_with(client: Client) -> Ask:
        return lambda number: client.ask(sent[number % len(sent)])

    def first() -> list[Array]:
        header, body = _body(model, requests[0])
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {
            "Inference-Header-Content-Length": str(len(header)),
            "Content-Type": "application/octet-stream",
        }
        connection.request("POST", address, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{port} answered {answer.status}: {data[:500]!r}")
        # KServe answers in JSON, whatever it was asked for.
        start = int(answer.getheader("Inference-Header-Content-Length") or len(data))
        found = []
        for output in json.loads(data[:start])["outputs"]:
            dtype = DTYPES[output["datatype"]]
            if "data" in output:
                array = np.array(output["data"], dtype)
            else:
                end = start + output["parameters"]["binary_data_size"]
                array, start = np.frombuffer(data[start:end], dtype), end
            found.append(array.reshape(output["shape"]))
        return found

    return Way(lambda count: [ask_with(Client(port)) for _ in range(count)], first)


def over_grpc(address: str, model: Ported, requests: Requests) -> Way:
    """Raw contents both ways."""
    import grpc

    from aotc_serve.grpc import grpc_messages as messages

    sent = []
    for arrays in requests:
        request = messages.InferRequest(model_name=model.model)
        for (name, datatype), array in zip(model.inputs, arrays, strict=True):
            request.inputs.add(name=name, datatype=datatype, shape=array.shape)
            request.raw_input_contents.append(array.tobytes())
        sent.append(request.SerializeToString())

    def call_of(number: int) -> Callable[[bytes], bytes]:
        # Channels with the same options would share a connection.
        channel = grpc.insecure_channel(address, [("client", number)])
        call = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")
        return lambda data: call(data, wait_for_ready=True)

    def ask_with(call: Callable[[bytes], bytes]) -> Ask:
        return lambda number: call(sent[number % len(sent)])

    def first() -> list[Array]:
        answer = messages.InferResponse.FromString(call_of(-1)(sent[0]))
        return [
            np.frombuffer(data, DTYPES[output.datatype]).reshape(list(output.shape))
            for output, data in zip(answer.outputs, answer.raw_output_contents, strict=True)
        ]

    return Way(lambda count: [ask_with(call_of(number)) for number in range(count)], first)


class Measured:
    """Figures of asking in rounds. kind: `in process`, `REST` or `gRPC`, which are compared.

    per_second: of each round.  seconds: of each request.  processor: seconds for a request.
    """

    def __init__(self, name: str, kind: str, way: Way, server: Listening | None = None) -> None:
        self.name, self.kind, self.way, self._server = name, kind, way, server
        self.per_second: list[float] = []
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def check(self, expected: Sequence[Array]) -> None:
        """It computes what the others do. Ends the program if not."""
        for found, wanted in zip(self.way.first(), expected, strict=True):
            if found.shape != wanted.shape or not np.allclose(found, wanted, RTOL, ATOL):
                raise SystemExit(f"{self.name} computes something else")

    def round(self, seconds: float, clients: int) -> None:
        """Send requests from all clients for so long, without a pause.

        Connections are new in each round: some servers keep idle ones for seconds only.
        """
        asks = self.way.clients(clients if self._server else 1)
        for ask in asks:
            ask(0)
        mark = self._used()
        taken: list[list[float]] = [[] for _ in asks]
        began = time.perf_counter()

        def run(place: int) -> None:
            ask, mine, number = asks[place], taken[place], place
            started = time.perf_counter()
            while started < began + seconds:
                ask(number)
                number += 1
                ended = time.perf_counter()
                mine.append(ended - started)
                started = ended

        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(asks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        every = [each for mine in taken for each in mine]
        self.per_second.append(len(every) / (time.perf_counter() - began))
        self.seconds += every
        self.processor.append((self._used() - mark) / len(every))

    def _used(self) -> float:
        return self._server.processor_seconds() if self._server else time.process_time()

    def forget(self) -> None:
        """The rounds so far were for warming up."""
        for each in (self.per_second, self.seconds, self.processor):
            each.clear()

    @property
    def rate(self) -> float:
        """Requests per second."""
        return statistics.median(self.per_second)

    def row(self, best: float) -> str:
        """A line of the table. best: requests per second of the best peer of this kind."""
        cuts: list[Any] = statistics.quantiles(self.seconds, n=100)
        return (
            f"| {self.kind} | {self.name} | {self.rate:.0f} | {self.rate / best:.2f} | "
            f"{cuts[49] * 1e3:.2f} | {cuts[98] * 1e3:.1f} | "
            f"{statistics.median(self.processor) * 1e6:.0f} |"
        )
