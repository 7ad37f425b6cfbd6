"""Calls a function on each of several items, on several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def map_on_threads[T, R](function: Callable[[T], R], things: Sequence[T], threads: int) -> list[R]:
    """The results, in the order of the items; the calling thread is one of the threads. function:
    must release Python's global lock, or nothing is gained. Raises the error of the first failed
    item, once all threads have ended; after an error no item is begun.
    """
    waiting = list(range(len(things)))[::-1]  # taken from the end; a list's pop is atomic
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        while waiting:
            try:
                index = waiting.pop()
            except IndexError:
                return
            try:
                results[index] = function(things[index])
            except BaseException as error:  # noqa: BLE001 - raised by the calling thread
                errors[index] = error
                waiting.clear()

    helpers: list[threading.Thread] = []
    try:
        for _ in range(min(threads, len(things)) - 1):
            helper = threading.Thread(target=work, name="aotc-each", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # the process may have no more threads: those it has will do
                break
            helpers.append(helper)
        work()
    finally:
        waiting.clear()
        for helper in helpers:
            helper.join()
    if errors:
        first = errors[min(errors)]
        # What an error's traceback leads to lives as long as the error, which must not be in it.
        errors.clear()
        results.clear()
        try:
            raise first
        finally:
            del first
    return [results[index] for index in range(len(things))]
