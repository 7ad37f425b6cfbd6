"""A server of somebody else's engine, as short as one can be written: no checks, no limits.

`python -m benchmarks.serve_peers.peer STACK ENGINE MODEL`. STACK: `starlette` (with uvicorn),
`grpc.aio`, or `grpc threads`, the older server of the same package. Prints its port. The engine is
called where the request is read, which is the fastest for calls as short as these.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np

from benchmarks.serve_peers.models import ENGINES, EXAMPLES, FOLDER, PROGRAMS, Array, Call, Ported

DTYPES = {"FP32": np.float32, "INT32": np.int32}
THREADS = 8


def rest(engine: Call, model: Ported) -> None:
    """Serve with starlette and uvicorn, with uvloop."""
    import uvicorn
    import uvloop
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def infer(request: Request) -> Response:
        body = await request.body()
        start = length = int(request.headers["inference-header-content-length"])
        arrays = []
        for tensor in json.loads(body[:length])["inputs"]:
            dtype, shape = DTYPES[tensor["datatype"]], tensor["shape"]
            size = tensor["parameters"]["binary_data_size"]
            arrays.append(np.frombuffer(body, dtype, size // 4, start).reshape(shape))
            start += size
        found = engine(arrays)
        outputs = [
            {
                "name": name,
                "datatype": datatype,
                "shape": array.shape,
                "parameters": {"binary_data_size": array.nbytes},
            }
            for (name, datatype), array in zip(model.outputs, found, strict=True)
        ]
        header = json.dumps({"model_name": model.model, "outputs": outputs}).encode()
        return Response(
            b"".join([header, *(array.tobytes() for array in found)]),
            media_type="application/octet-stream",
            headers={"inference-header-content-length": str(len(header))},
        )

    async def main() -> None:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        app = Starlette(routes=[Route("/v2/models/{name}/infer", infer, methods=["POST"])])
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="httptools",
            server_header=False,
        )
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _grpc_answer(engine: Call, model: Ported, request: Any) -> Any:
    from aotc_serve.grpc import grpc_messages as messages

    arrays: list[Array] = [
        np.frombuffer(data, DTYPES[tensor.datatype]).reshape(list(tensor.shape))
        for tensor, data in zip(request.inputs, request.raw_input_contents, strict=True)
    ]
    response = messages.InferResponse(model_name=model.model)
    for (name, datatype), array in zip(model.outputs, engine(arrays), strict=True):
        response.outputs.add(name=name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def _grpc_handlers(method: Callable[[Any, Any], Any]) -> Any:
    import grpc

    from aotc_serve.grpc import grpc_messages as messages

    handler = grpc.unary_unary_rpc_method_handler(
        method, messages.InferRequest.FromString, messages.InferResponse.SerializeToString
    )
    return (grpc.method_handlers_generic_handler(messages.SERVICE, {"ModelInfer": handler}),)


def grpc_aio(engine: Call, model: Ported) -> None:
    """grpc.aio, with uvloop."""
    import grpc
    import uvloop

    async def infer(request: Any, _: Any) -> Any:
        return _grpc_answer(engine, model, request)

    async def main() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(_grpc_handlers(infer))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        await server.wait_for_termination()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def grpc_threads(engine: Call, model: Ported) -> None:
    """grpc.server, with a thread for each request under way."""
    import grpc

    server = grpc.server(ThreadPoolExecutor(THREADS))
    handlers = _grpc_handlers(lambda request, _: _grpc_answer(engine, model, request))
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


STACKS = {"starlette": rest, "grpc.aio": grpc_aio, "grpc threads": grpc_threads}


def main(stack: str, engine: str, name: str) -> None:
    """Serve until the process is ended."""
    sys.path.insert(0, str(EXAMPLES))
    model = msgspec.json.decode((FOLDER / name / "model.json").read_bytes(), type=Ported)
    call = ENGINES[engine](name)
    for arrays in PROGRAMS[name].requests():
        call(arrays)
    STACKS[stack](call, model)


if __name__ == "__main__":
    main(*sys.argv[1:])
