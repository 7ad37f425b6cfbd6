"""Memory that requests free is kept for later ones up to a limit; time limits of small bodies."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from aotc_runtime.base.errors import AotcError
from aotc_serve.http.request_bodies import PACE_BYTES, read_body
from aotc_serve.inference.request_memory import COSTS, Claim, Memory
from aotc_serve.inference.server_options import Limits
from tests.refusals import error_of

from ..samples import refused as refusing


def refused(memory: Memory, size: int, *, is_whole: bool = False) -> bool:
    with refusing("AOTC-E766"):
        Claim(memory, size, is_whole=is_whole)
    return True


def test_small_requests_have_a_share_and_those_that_have_arrived_a_part_of_it() -> None:
    memory = Memory(2**20)
    small = memory.small
    large = [Claim(memory, 2**16, is_whole=True) for _ in range(14)]
    assert memory.used == memory.most_of_large == 2**20 * 7 // 8
    assert refused(memory, small + 1, is_whole=True)
    arriving = [Claim(memory, small) for _ in range(4)]
    assert refused(memory, 1)
    for _ in range(2**15 // COSTS.connection):
        memory.connect()
    error_of(AotcError, memory.connect)
    for _ in range(2**15 // COSTS.connection):
        memory.disconnect()
    arrived = [Claim(memory, small, is_whole=True) for _ in range(12)]
    assert memory.used == 2**20 and refused(memory, 1, is_whole=True)
    for claim in (*large, *arriving, *arrived):
        claim.close()
    assert memory.used == 0


def test_small_claim_that_grows_is_small_no_longer() -> None:
    memory = Memory(2**20)
    claim, rest = Claim(memory, memory.small), Claim(memory, memory.most_of_large - 2**13)
    error_of(AotcError, claim.take, 2**13)
    assert claim.total == memory.small
    rest.close()
    claim.take(2**13)


def test_connections_count_and_leave_room_for_requests_that_have_arrived() -> None:
    memory = Memory(2**20)
    count = 0
    with pytest.raises(AotcError):
        while True:
            memory.connect()
            count += 1
    assert count == 2**20 * 15 // 16 // COSTS.connection and memory.used == 0
    Claim(memory, memory.small, is_whole=True).close()
    memory.disconnect()
    memory.connect()


def test_what_waits_on_connections_leaves_room_for_others() -> None:
    memory = Memory(2**20)
    waiting = [Claim(memory, is_waiting=True) for _ in range(14)]
    for claim in waiting:
        claim.take(2**16)
    error_of(AotcError, waiting[0].take, 1)
    memory.connect()
    Claim(memory, memory.small).close()


def test_claims_that_are_forgotten_are_given_back() -> None:
    memory = Memory(2**20)
    claim = Claim(memory, 1000)
    claim.resize(500)
    assert memory.used == 500
    del claim
    assert memory.used == 0


LIMITS = Limits(header_seconds=0.4, body_seconds=30)
PARTS = 6


def request() -> Request:
    """A body that arrives at the pace that is asked for, within 0.6 seconds."""
    left = [PARTS]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.1)
        left[0] -= 1
        return {"type": "http.request", "body": bytes(PACE_BYTES), "more_body": left[0] > 0}

    return Request({"type": "http", "headers": []}, receive)


@pytest.mark.parametrize("is_scarce", [False, True])
def test_small_body_has_the_time_of_a_header_while_memory_is_scarce(is_scarce: bool) -> None:
    memory = Memory(2**24)
    assert memory.small >= PARTS * PACE_BYTES
    others = Claim(memory, memory.most_of_large if is_scarce else 1, is_whole=True)
    if is_scarce:
        with refusing("AOTC-E764"):
            asyncio.run(read_body(request(), LIMITS, memory))
    else:
        body = asyncio.run(read_body(request(), LIMITS, memory))
        assert len(body.data) == PARTS * PACE_BYTES
        body.claim.close()
    assert memory.used == others.total
