"""Digests in OCI's spelling and no other, and work on several threads."""

import hashlib
import random
import threading
import time

import pytest

from aotc_runtime.base import digest
from aotc_runtime.base.digest import PARALLEL_BYTES_MIN, is_digest, sha256, sha256_each
from aotc_runtime.base.parallel_calls import map_on_threads


def test_a_digest_is_sha256_in_lower_case_hex() -> None:
    assert sha256(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert sha256(memoryview(b"abc")) == sha256(b"abc")
    assert is_digest(sha256(b""))


@pytest.mark.parametrize(
    "text",
    [
        *("", "sha256:", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "0" * 65),
        *("sha256:" + "A" * 64, "SHA256:" + "0" * 64, "sha256:" + "0" * 64 + "\n"),
        *("sha256:" + "٠" * 64, "sha512:" + "0" * 128, " sha256:" + "0" * 64),
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


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 50])
def test_results_come_in_the_order_of_the_things(threads: int) -> None:
    assert map_on_threads(str, range(20), threads) == [str(number) for number in range(20)]
    assert map_on_threads(str, [], threads) == []


def test_as_many_run_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3)
    names = map_on_threads(
        lambda _: together.wait(60) >= 0 and threading.current_thread(), range(3), 3
    )
    assert len(set(names)) == 3 and threading.current_thread() in names


def test_the_error_of_the_first_thing_is_raised_and_nothing_more_begins() -> None:
    begun: list[int] = []
    together = threading.Barrier(2)

    def fail(number: int) -> None:
        begun.append(number)
        together.wait(60)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        map_on_threads(fail, range(10), 2)
    assert sorted(begun) == [0, 1]


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError):
        map_on_threads(lambda number: 1 // (number - 5), range(10), 4)
    # Of other tests' threads, some may have ended meanwhile.
    assert set(threading.enumerate()) <= before


def test_one_thread_is_used_where_no_more_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert map_on_threads(str, range(3), 3) == ["0", "1", "2"]
