"""Every part counts in a key, and people are told which one differs."""

from __future__ import annotations

import pytest

from aotc.pipeline.cache.cache_keys import Kind, Task, changes
from aotc_runtime.base.digest import sha256

A, B = sha256(b"a"), sha256(b"b")


def key(kind: Kind = Kind.EXECUTABLE, of: str = "f", **parts: str) -> str:
    return Task(kind, of, parts).key


def test_a_key_accounts_for_the_kind_and_for_each_name_and_value() -> None:
    different = [key(), key(a="1"), key(a="2"), key(b="1"), key(a="1", b="1"), key(Kind.PARITY)]
    assert len(set(different)) == len(different)


def test_a_key_does_not_account_for_order_or_for_what_people_call_the_task() -> None:
    assert Task(Kind.PACK, "x", {"a": "1", "b": "2"}).key == key(Kind.PACK, b="2", a="1")


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({"jaxlib": "0.12.0"}, {"jaxlib": "0.12.0.1"}, "jaxlib 0.12.0 -> 0.12.0.1"),
        ({"module": A}, {"module": B}, "module changed"),
        ({}, {"compile option x": "1"}, "compile option x added: 1"),
        (
            {"package x": "1", "files of package x": A},
            {"package x": "2", "files of package x": B},
            "package x 1 -> 2",
        ),
        ({"files of package x": A}, {"files of package x": B}, "files of package x changed"),
        ({"source file a.py": A}, {}, "source file a.py is no longer read"),
        ({}, {"file a.txt": A}, "file a.txt is now read"),
        ({"file of package x a.py": A}, {}, "file of package x a.py removed"),
    ],
)
def test_a_change_says_what_was_and_what_is(
    before: dict[str, str], now: dict[str, str], text: str
) -> None:
    assert [str(change) for change in changes(before, now)] == [text]
    assert not list(changes(now, now))
