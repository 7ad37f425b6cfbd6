"""The MLP of `manifests/digits` served by us and by others, side by side.

`python -m benchmarks.serve_peers [KSERVE_PYTHON]`, in an environment with the extras `serve` and
`xla` of the loader, jax, onnx, onnxruntime and safetensors. Ours over REST and gRPC, alone and
joined; jax.jit and ONNX Runtime behind starlette and uvicorn, with the same binary tensors, called
where the request is read; ONNX Runtime so behind grpc.aio; KServe's server with ONNX Runtime, if a
Python that has both is named. All servers run at the same time, and so many clients with a
connection each ask them in turns, a row at a time.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import aotc_runtime
from aotc.pipeline.build import build
from aotc.signing.signer import LocalSigner
from aotc.signing.trust_file import policy_text
from benchmarks.measure import OUT, ROOT, machine
from benchmarks.serve import Client, Listening, serving

CLIENTS, ROUNDS, SECONDS = 4, 5, 0.7
FOLDER = OUT / "serve_peers"

type Ask = Callable[[], object]

MANIFEST = """\
schema = 1
name = "mlp"
version = "1.0.0"
targets = ["cpu-x86-64-v3"]

[weights.params]
source = "{digits}/params.safetensors"

[dimensions.batch]
range = [1, 64]
profiles = [1, 8, 64]

[entry_points.run]
function = "digits.model:predict"
bind = {{ params = "params" }}
inputs.image = {{ shape = ["batch", 64], dtype = "float32" }}
static = {{ temperature = 1.0 }}
out_of_profile.batch = "split"
"""

PEER = """
import asyncio, json, socket, sys
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

kind, folder, manifests = sys.argv[1:]
if kind == "jax.jit":
    import jax
    sys.path.insert(0, manifests)
    from digits.model import predict
    weights = dict(np.load(folder + "/weights.npz"))
    params = {}
    for name, array in weights.items():
        layer, _, part = name.partition("/")
        params.setdefault(layer, {})[part] = jax.device_put(array)
    function = jax.jit(lambda params, image: predict(params, image, temperature=1.0))
    def model(image):
        found = function(params, image)
        return np.asarray(found["label"]), np.asarray(found["probabilities"])
else:
    import onnxruntime
    session = onnxruntime.InferenceSession(folder + "/model.onnx")
    def model(image):
        return session.run(None, {"input": image})

async def infer(request):
    body = await request.body()
    length = int(request.headers["inference-header-content-length"])
    asked = json.loads(body[:length])
    shape = asked["inputs"][0]["shape"]
    label, probabilities = model(np.frombuffer(body, np.float32, offset=length).reshape(shape))
    outputs = [
        {"name": name, "datatype": datatype, "shape": array.shape,
         "parameters": {"binary_data_size": array.nbytes}}
        for name, datatype, array in (
            ("label", "INT32", label), ("probabilities", "FP32", probabilities))
    ]
    header = json.dumps({"model_name": "mlp", "outputs": outputs}).encode()
    return Response(header + label.tobytes() + probabilities.tobytes(),
                    media_type="application/octet-stream",
                    headers={"inference-header-content-length": str(len(header))})

async def main():
    model(np.zeros((1, 64), np.float32))
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v2/models/{name}/infer", infer, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none",
                            http="httptools", server_header=False)
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])

import uvloop
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""

GRPC_PEER = """
import asyncio, sys
import grpc
import numpy as np
import onnxruntime, uvloop
from aotc_runtime.servers import grpc_messages as messages

session = onnxruntime.InferenceSession(sys.argv[2] + "/model.onnx")

async def infer(request, context):
    shape = list(request.inputs[0].shape)
    image = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(shape)
    response = messages.InferResponse(model_name="mlp")
    found = session.run(None, {"input": image})
    for name, datatype, array in zip(("label", "probabilities"), ("INT32", "FP32"), found):
        response.outputs.add(name=name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response

async def main():
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(
        infer, messages.InferRequest.FromString, messages.InferResponse.SerializeToString)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(messages.SERVICE, {"ModelInfer": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""

KSERVE = """
import socket, sys
folder = sys.argv.pop()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
sys.argv[1:] = ["--http_port", str(port), "--enable_grpc", "false"]
import logging
import kserve, onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer
session = onnxruntime.InferenceSession(folder + "/model.onnx")

class Mlp(Model):
    def __init__(self):
        super().__init__("mlp")
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        found = session.run(None, {"input": payload.inputs[0].as_numpy()})
        outputs = []
        for name, kind, array in zip(("label", "probabilities"), ("INT32", "FP32"), found):
            outputs.append(InferOutput(name, list(array.shape), kind))
            outputs[-1].set_data_from_numpy(array)
        return InferResponse(payload.id or "none", "mlp", outputs)

logging.disable(logging.CRITICAL)
print(port, flush=True)
ModelServer(access_log_format=None).start([Mlp()])
"""


def made() -> tuple[Path, Path]:
    """The bundle and its policy; weights and the ONNX graph of the same model lie beside it."""
    from onnx import TensorProto, checker, helper, numpy_helper, save_model
    from safetensors.numpy import load_file

    from benchmarks.compare.onnx_graph import OPSET, Graph
    from benchmarks.compare.onnx_graphs import mlp

    FOLDER.mkdir(parents=True, exist_ok=True)
    digits = ROOT / "manifests" / "digits"
    weights = {k.replace(".", "/"): v for k, v in load_file(digits / "params.safetensors").items()}
    np.savez(FOLDER / "weights.npz", **weights)
    graph = Graph(weights)
    label, probabilities = mlp(graph, ())
    made = helper.make_graph(
        graph.nodes,
        "mlp",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 64])],
        [
            helper.make_tensor_value_info(label, TensorProto.INT32, ["batch"]),
            helper.make_tensor_value_info(probabilities, TensorProto.FLOAT, ["batch", 10]),
        ],
        [numpy_helper.from_array(array, name) for name, array in graph.initializers.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model_gen_version(made, opset_imports=opsets)
    checker.check_model(model, full_check=True)
    save_model(model, FOLDER / "model.onnx")
    manifest = ROOT / "manifests" / "mlp-served.toml"
    manifest.write_text(MANIFEST.format(digits="digits"))
    signer = LocalSigner.ephemeral()
    try:
        build(manifest, output=FOLDER / "mlp.aotb", signer=signer)
    finally:
        manifest.unlink()
    (FOLDER / "trust.toml").write_text(policy_text("mlp", [signer.public_pem()]))
    return FOLDER / "mlp.aotb", FOLDER / "trust.toml"


@contextlib.contextmanager
def other(python: str, code: str, *arguments: str) -> Iterator[Listening]:
    """A server of somebody else's, once it answers."""
    command = [python, "-c", code, *arguments]
    log = (FOLDER / "peers.log").open("a")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        assert process.stdout is not None
        try:
            found = Listening(int(process.stdout.readline()), process.pid)
            for _ in range(600):
                with contextlib.suppress(OSError):
                    Client(found.port).close()
                    break
                time.sleep(0.1)
            yield found
        finally:
            process.kill()


IMAGE = np.random.default_rng(1).random((1, 64), np.float32) * 16


def request() -> bytes:
    """An inference request of one row, with binary data both ways."""
    parameters = {"binary_data_size": IMAGE.nbytes}
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 64], "parameters": parameters}
    document = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    header = json.dumps(document).encode()
    head = (
        "POST /v2/models/mlp/infer HTTP/1.1\r\nHost: x\r\n"
        "Content-Type: application/octet-stream\r\n"
        f"Inference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(header) + IMAGE.nbytes}\r\n\r\n"
    )
    return head.encode() + header + IMAGE.tobytes()


def rest(port: int) -> list[Ask]:
    """A client for each connection."""
    sent = request()
    clients = [Client(port) for _ in range(CLIENTS)]
    return [lambda client=client: client.ask(sent) for client in clients]  # type: ignore[misc]


def grpc(address: str) -> list[Ask]:
    """The same over gRPC."""
    import grpc

    from aotc_runtime.servers import grpc_messages as messages

    sent = messages.message("ModelInferRequest")(model_name="mlp")
    sent.inputs.add(name="image", datatype="FP32", shape=[1, 64])
    sent.raw_input_contents.append(IMAGE.tobytes())
    data = sent.SerializeToString()
    found: list[Ask] = []
    for number in range(CLIENTS):
        # Channels with the same options would share a connection.
        channel = grpc.insecure_channel(address, [("client", number)])
        call = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")
        found.append(lambda call=call: call(data, wait_for_ready=True))  # type: ignore[misc]
    return found


class Measured:
    """What asking in rounds gave. per_second: of each round.  seconds: of each request."""

    def __init__(
        self, name: str, clients: Callable[[], list[Ask]], server: Listening | None
    ) -> None:
        self.name, self._clients, self._server = name, clients, server
        self.per_second: list[float] = []
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def round(self, seconds: float = SECONDS) -> None:
        """Everybody asks for so long, without a pause, on connections of this round: some servers
        keep idle ones for seconds only.
        """
        asks = self._clients()
        for ask in asks:
            ask()
        mark = self._server.processor_seconds() if self._server else time.process_time()
        taken: list[list[float]] = [[] for _ in asks]
        began = time.perf_counter()

        def run(ask: Ask, mine: list[float]) -> None:
            started = time.perf_counter()
            while started < began + seconds:
                ask()
                ended = time.perf_counter()
                mine.append(ended - started)
                started = ended

        threads = [
            threading.Thread(target=run, args=both) for both in zip(asks, taken, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        every = [each for mine in taken for each in mine]
        now = self._server.processor_seconds() if self._server else time.process_time()
        self.per_second.append(len(every) / (time.perf_counter() - began))
        self.seconds += every
        self.processor.append((now - mark) / len(every))

    def row(self, best: float) -> str:
        """A line of the table. best: requests per second of the best peer."""
        cuts = statistics.quantiles(self.seconds, n=100)
        rate = statistics.median(self.per_second)
        return (
            f"| {self.name} | {rate:.0f} | {rate / best:.2f} | {cuts[49] * 1e3:.2f} | "
            f"{cuts[98] * 1e3:.1f} | {statistics.median(self.processor) * 1e6:.0f} |"
        )


def main() -> None:
    """Print the table."""
    print(machine())
    bundle, policy = made()
    loaded = aotc_runtime.load(bundle, trust=policy)
    run: Any = loaded["run"]
    with contextlib.ExitStack() as stack:
        every = [Measured("in process, one thread", lambda: [lambda: run(IMAGE)], None)]
        for joined in ([], ["--max-delay", "1"]):
            said = "joined" if joined else "alone"
            server = stack.enter_context(serving(bundle, policy, "--grpc-port", "0", *joined))
            every.append(Measured(f"aotc, REST, {said}", partial(rest, server.port), server))
            every.append(Measured(f"aotc, gRPC, {said}", partial(grpc, server.grpc), server))
        peers = []
        for name in ("jax.jit", "onnxruntime"):
            given = (name, str(FOLDER), str(ROOT / "manifests"))
            peer = stack.enter_context(other(sys.executable, PEER, *given))
            peers.append(Measured(f"starlette, {name}", partial(rest, peer.port), peer))
        peer = stack.enter_context(other(sys.executable, GRPC_PEER, "onnxruntime", str(FOLDER)))
        address = f"127.0.0.1:{peer.port}"
        peers.append(Measured("grpc.aio, onnxruntime", partial(grpc, address), peer))
        for python in sys.argv[1:2]:
            peer = stack.enter_context(other(python, KSERVE, str(FOLDER)))
            peers.append(Measured("KServe, onnxruntime", partial(rest, peer.port), peer))
        every += peers
        for each in every:
            each.round(SECONDS / 2)
            for list_ in (each.per_second, each.seconds, each.processor):
                list_.clear()
        for _ in range(ROUNDS):
            for each in every:
                each.round()
    best = max(statistics.median(peer.per_second) for peer in peers)
    print("| server | requests/s | of the best peer | p50 ms | p99 ms | processor µs |")
    print("|---|---|---|---|---|---|")
    for each in every:
        print(each.row(best))


if __name__ == "__main__":
    main()
