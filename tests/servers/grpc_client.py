"""Calls of gRPC that end early; run by an interpreter that has tritonclient.

Arguments: address, what to do.  Prints what came of it as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as tc
from tritonclient.utils import InferenceServerException

ADDRESS, WHAT, *MORE = sys.argv[1:]
ROWS = np.ones((3, 2), np.float32)


def tensor() -> Any:
    given = tc.InferInput("x", ROWS.shape, "FP32")
    given.set_data_from_numpy(ROWS)
    return given


def cancel() -> dict[str, int]:
    """Many calls that are cancelled as soon as they were sent."""
    found: Counter[str] = Counter()
    ended = threading.Semaphore(0)

    def told(result: Any, error: Any) -> None:
        found["error" if error else "answer"] += 1
        ended.release()

    client = tc.InferenceServerClient(ADDRESS)
    for _ in range(100):
        client.async_infer("types.float32", [tensor()], told).cancel()
    for _ in range(100):
        ended.acquire()
    return dict(found)


def ask() -> dict[str, int]:
    """Calls without a pause until the server refuses them, or a file is there: how many came to
    what.
    """
    end = Path(MORE[0]) if MORE else None
    found: Counter[str] = Counter()

    def run() -> None:
        client = tc.InferenceServerClient(ADDRESS)
        while end is None or not end.exists():
            try:
                client.infer("types.float32", [tensor()])
            except InferenceServerException as error:
                found[f"{error.status()}: {error.message()}"] += 1
                return
            found["answer"] += 1
            if found["answer"] == 20:
                print("asking", flush=True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(found)


def trace() -> dict[str, int]:
    """One call in the trace of the client."""
    client = tc.InferenceServerClient(ADDRESS)
    client.infer("types.float32", [tensor()], headers={"traceparent": MORE[0]})
    return {"answer": 1}


print(json.dumps({"cancel": cancel, "ask": ask, "trace": trace}[WHAT]()))
