"""Calls of gRPC that end early; run by an interpreter that has tritonclient.

Arguments: address, what to do.  Prints what came of it as JSON.
"""

import json
import sys
import threading
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as tc
from tritonclient.utils import InferenceServerException

ADDRESS, WHAT, *MORE = sys.argv[1:]
ROWS = np.ones((3, 2), np.float32)
FOURS = np.arange(4, dtype=np.float32).reshape(1, 4)


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


def beside() -> dict[str, int]:
    """Return the outcomes of calls beside others on the same connection that are cancelled.

    These are cancelled before they begin, while they wait and while they run.
    """
    client = tc.InferenceServerClient(ADDRESS)
    found: Counter[str] = Counter()
    is_over = threading.Event()

    under_way = threading.Semaphore(8)

    def ended(result: Any, error: Any) -> None:
        under_way.release()

    def storm() -> None:
        pauses = cycle((0.0, 0.0005, 0.001, 0.003))
        while not is_over.is_set():
            under_way.acquire()
            call = client.async_infer("types.rows", pair(-FOURS), ended)
            time.sleep(next(pauses))
            call.cancel()

    def run(number: int) -> None:
        for each in range(100):
            rows = FOURS + 100 * number + each  # of which no other call has the same
            try:
                answer = client.infer("types.rows", pair(rows))
            except InferenceServerException as error:
                found[f"{error.status()}: {error.message()}"] += 1
            else:
                is_right = np.array_equal(answer.as_numpy("result"), rows * 3)
                found["answer" if is_right else "another answer"] += 1

    stormy = threading.Thread(target=storm)
    stormy.start()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    stormy.join()
    return dict(found)


def pair(rows: Any) -> list[Any]:
    """Return both inputs of a call."""
    given = [tc.InferInput(name, rows.shape, "FP32") for name in ("x", "y")]
    for each in given:
        each.set_data_from_numpy(rows)
    return given


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


print(json.dumps({"cancel": cancel, "beside": beside, "ask": ask, "trace": trace}[WHAT]()))
