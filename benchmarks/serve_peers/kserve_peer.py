"""KServe's server with ONNX Runtime: `PYTHON kserve_peer.py FOLDER`, with a Python that has both.

Prints its ports, of HTTP and of gRPC.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv.pop())


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


PORTS = _free(), _free()
# Read when kserve is imported.
sys.argv[1:] = ["--http_port", str(PORTS[0]), "--grpc_port", str(PORTS[1])]

import kserve  # noqa: E402
import onnxruntime  # noqa: E402

MODEL = json.loads((FOLDER / "model.json").read_text())
SESSION = onnxruntime.InferenceSession(str(FOLDER / "model.onnx"))
NAMES = [each.name for each in SESSION.get_inputs()]


class Served(kserve.Model):  # type: ignore[misc]
    """The model."""

    def __init__(self) -> None:
        super().__init__(MODEL["model"])
        self.ready = True

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Answer a request."""
        arrays = [each.as_numpy() for each in payload.inputs]
        outputs = []
        for (name, kind), array in zip(
            MODEL["outputs"], SESSION.run(None, dict(zip(NAMES, arrays, strict=True))), strict=True
        ):
            outputs.append(kserve.InferOutput(name, list(array.shape), kind))
            outputs[-1].set_data_from_numpy(array)
        return kserve.InferResponse(payload.id or "none", MODEL["model"], outputs)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(*PORTS, flush=True)
    kserve.ModelServer(access_log_format=None).start([Served()])
