"""Answers over HTTP: what is written together, and what is not copied."""

import asyncio
from typing import Any

import pytest

from aotc_serve.http.http_messages import GATHERED, SMALL, TOGETHER, Parts
from aotc_serve.inference.request_memory import Claim, Memory

HEADER = b"{}"


def written(*sizes: int) -> list[bytes | memoryview]:
    """The pieces of an answer with tensors of these sizes, as the server is given them."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    tensors = [memoryview(bytes([number]) * size) for number, size in enumerate(sizes, 1)]
    memory = Memory(2**30)
    answer = Parts(HEADER, tensors, Claim(memory))
    length = len(HEADER) + sum(sizes)
    assert memory.used == (length if length > SMALL else 0)
    asyncio.run(answer({}, lambda: None, send))  # type: ignore[arg-type]
    assert memory.used == 0
    start, *bodies = sent
    assert dict(start["headers"])[b"content-length"] == str(length).encode()
    pieces = [message["body"] for message in bodies if len(message["body"])]
    assert b"".join(pieces) == b"".join([HEADER, *tensors])
    return pieces


@pytest.mark.parametrize("size", [1, SMALL - len(HEADER), SMALL])
def test_a_tensor_that_is_not_large_is_written_with_the_header(size: int) -> None:
    assert [len(piece) for piece in written(size)] == [len(HEADER) + size]


def test_a_large_tensor_is_not_copied() -> None:
    pieces = written(GATHERED + 1, 5, GATHERED + 1)
    assert [type(piece) for piece in pieces] == [bytes, memoryview, bytes, memoryview]
    assert [len(piece) for piece in pieces] == [len(HEADER), GATHERED + 1, 5, GATHERED + 1]


def test_tensors_that_are_not_large_are_written_together_up_to_a_limit() -> None:
    pieces = written(*[GATHERED] * 20)
    assert len(pieces) == 3 and all(len(piece) <= TOGETHER for piece in pieces)
