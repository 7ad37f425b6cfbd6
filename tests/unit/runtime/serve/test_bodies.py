"""Small bodies have less time while only small requests have room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from aotc_serve.http.request_bodies import PACE_BYTES, read_body
from aotc_serve.inference.request_memory import Claim, Memory
from aotc_serve.inference.server_options import Limits

from ..samples import refused

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
        with refused("AOTC-E764"):
            asyncio.run(read_body(request(), LIMITS, memory))
    else:
        body = asyncio.run(read_body(request(), LIMITS, memory))
        assert len(body.data) == PARTS * PACE_BYTES
        body.claim.close()
    assert memory.used == others.total
