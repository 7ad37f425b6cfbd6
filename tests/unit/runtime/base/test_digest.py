"""Digests in OCI's spelling and no other."""

from __future__ import annotations

import hashlib
import random
import threading
import time

import pytest

from aotc_runtime.base import digest
from aotc_runtime.base.digest import PARALLEL_BYTES_MIN, is_digest, sha256, sha256_each


def test_a_digest_is_sha256_in_lower_case_hex() -> None:
    assert sha256(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert sha256(memoryview(b"abc")) == sha256(b"abc")
    assert is_digest(sha256(b""))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        "0" * 64,
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "A" * 64,
        "SHA256:" + "0" * 64,
        "sha256:" + "0" * 64 + "\n",
        "sha256:" + "٠" * 64,
        "sha512:" + "0" * 128,
        " sha256:" + "0" * 64,
    ],
)
def test_every_other_spelling_is_none(text: str) -> None:
    assert not is_digest(text)


@pytest.mark.parametrize("largest", [100, PARALLEL_BYTES_MIN])
def test_many_digests_come_in_the_order_of_their_data(largest: int) -> None:
    data = [memoryview(random.Random(n).randbytes(n)) for n in (0, 3000, 1, largest, 77, 3000)]
    assert sha256_each(data) == [sha256(view) for view in data]
    assert sha256_each([]) == []


def hashing(data: list[memoryview], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The size of what was hashed and the thread that did it, in the order of beginning."""
    begun: list[tuple[int, str]] = []

    def slow(view: memoryview) -> str:
        begun.append((len(view), threading.current_thread().name))
        time.sleep(0.01)
        return sha256(view)

    monkeypatch.setattr(digest, "sha256", slow)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert sha256_each(data) == [sha256(view) for view in data]
    return begun


def test_every_core_hashes_and_the_largest_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [memoryview(bytes(PARALLEL_BYTES_MIN // 4 + n)) for n in range(9)]
    begun = hashing(data, monkeypatch)
    assert max(begun)[0] == begun[0][0]
    assert len({thread for _, thread in begun}) > 1


def test_little_is_hashed_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = hashing([memoryview(bytes(100))] * 9, monkeypatch)
    assert {thread for _, thread in begun} == {threading.current_thread().name}
