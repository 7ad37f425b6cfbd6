"""Memory of a request is held until nothing uses it, however long its client has waited."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from waiting import SECONDS

from aotc_runtime.base.errors import AotcError
from aotc_serve.inference.inference_requests import Outcome, Prepared
from aotc_serve.inference.request_memory import Claim
from aotc_serve.inference.served_models import Model
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import Limits
from aotc_serve.service.bundle_repository import Repository
from aotc_serve.service.request_service import Asked, Service

ROWS = np.ones((2, 4), np.float32)
SIZE = 1000


class Slow:
    """Steps of a request that take until they are let go on."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.begun, self.go_on, self.was_read = (threading.Event() for _ in range(3))
        self.ended = 0

    def _at(self, step: str) -> None:
        if step == self._step:
            self.begun.set()
            assert self.go_on.wait(SECONDS)
            self.ended += 1

    def read(self, model: Model) -> Prepared:
        self._at("read")
        places = [(place, True) for place in range(len(model.outputs))]
        self.was_read.set()
        return Prepared("", [ROWS] * len(model.inputs), places)

    def write(self, outcome: Outcome) -> Any:
        self._at("write")
        return outcome.arrays[0].copy()


@asynccontextmanager
async def serving(
    repository: Repository, delay: float | None, seconds: float = 60
) -> AsyncIterator[Service]:
    service = Service(repository, Limits(call_seconds=seconds), Metrics(), 2, delay)
    try:
        yield service
    finally:
        service.close()


def asked(service: Service, slow: Slow, name: str) -> asyncio.Task[Any]:
    request = Asked("rest", name, "", SIZE, Claim(service.memory, SIZE))
    return asyncio.create_task(service.infer(request, slow.read, slow.write))


async def came_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def calls_of(repository: Repository) -> int:
    """Requests that keep the bundle from being closed."""
    (place,) = repository._places.values()
    assert place.slot is not None
    return place.slot._current.calls


@pytest.mark.parametrize("step", ["read", "write"])
@pytest.mark.parametrize("name", ["joins.rows", "joins.running"])
@pytest.mark.parametrize("delay", [None, 0.0], ids=["alone", "joined"])
@pytest.mark.parametrize("end", ["late", "gone"])
def test_a_call_that_nobody_waits_for_holds_its_memory_and_its_bundle_until_it_ends(
    repository: Repository, step: str, name: str, delay: float | None, end: str
) -> None:
    async def run() -> None:
        slow = Slow(step)
        async with serving(repository, delay, 0.05 if end == "late" else 60) as service:
            task = asked(service, slow, name)
            await came_true(slow.begun.is_set)
            if end == "gone":
                task.cancel()
            with pytest.raises(AotcError if end == "late" else asyncio.CancelledError) as caught:
                await task
            if isinstance(caught.value, AotcError):
                assert caught.value.code == "AOTC-E765"
            for _ in range(20):
                await asyncio.sleep(0)
            assert (service.memory.used, service.requests) == (SIZE, 1)
            assert calls_of(repository) == 1
            slow.go_on.set()
            await came_true(lambda: service.requests == 0)
            assert (service.memory.used, slow.ended) == (0, 1)
            assert calls_of(repository) == 0

    asyncio.run(run())


def test_who_goes_while_waiting_to_be_joined_is_not_served(repository: Repository) -> None:
    async def run() -> None:
        first, second, third = Slow("write"), Slow("write"), Slow("")
        async with serving(repository, 0.0) as service:
            running = asked(service, first, "joins.rows")
            await came_true(first.begun.is_set)
            gone = asked(service, second, "joins.rows")
            stays = asked(service, third, "joins.rows")
            await came_true(lambda: second.was_read.is_set() and third.was_read.is_set())
            await asyncio.sleep(0.05)
            gone.cancel()
            await came_true(lambda: gone.done())
            first.go_on.set()
            await running
            assert (await stays).tobytes() == (2 * ROWS.T + 0).tobytes()
            await came_true(lambda: service.requests == 0)
            assert not second.begun.is_set() and service.memory.used == 0

    asyncio.run(run())
