"""Compiles executables in the background, for sizes of calls that no profile of the bundle has."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any

from msgspec import Struct

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.serving.call_metrics import SizesKey
from aotc_runtime.serving.served_call import Served

FAILURES_MAX = 256
"""Failures that are remembered; the oldest is forgotten, and tried again when it is asked for."""


class _Ready(Struct):
    served: Served
    seconds: float
    calls: int = 0


class BackgroundCompiler:
    """Compiles one entry point for more sizes, one after the other in a thread of its own.

    `compile_` makes an executable; slow; raises AotcError. `most` limits the cached executables,
    and the sizes that wait; the least recently used is released. A compilation that takes more than
    `seconds` is given up: XLA cannot be stopped, so its thread goes on, and its result is unused.
    """

    def __init__(
        self,
        name: str,
        module: str,
        compile_: Callable[[dict[str, int]], Served],
        most: int,
        seconds: float,
    ) -> None:
        self._name, self._module = name, module
        self._compile: Callable[[dict[str, int]], Served] | None = compile_
        self._most, self._seconds = most, seconds
        self._lock = threading.Lock()
        self._ready: OrderedDict[SizesKey, _Ready] = OrderedDict()
        self._waiting: dict[SizesKey, float | None] = {}  # when its compilation began, if it did
        self._failed: OrderedDict[SizesKey, str] = OrderedDict()
        self._is_working = False
        self.compiled = self._evicted = self._given_up = 0
        self._spent = 0.0

    def find(self, sizes: SizesKey) -> Served | None:
        """Return the executable of these sizes, if it is there."""
        with self._lock:
            ready = self._ready.get(sizes)
            if ready is None:
                return None
            self._ready.move_to_end(sizes)
            ready.calls += 1
            return ready.served

    def request(self, sizes: SizesKey) -> AotcError:
        """Start a compilation, and return the error for a call that cannot wait for it.

        AOTC-E614: it is being compiled, or will be when others are done; E615: that failed.
        """
        where = f"{self._name} {sizes_text(dict(sizes))}"
        with self._lock:
            self._give_up_late()
            if sizes in self._failed:
                return refusal("AOTC-E615", where, self._failed[sizes])
            if sizes not in self._waiting and len(self._waiting) < self._most:
                self._waiting[sizes] = None
                if not self._is_working and self._compile is not None:
                    self._is_working = True
                    # Not a daemon: Python would end the thread inside of XLA, which aborts the
                    # process.
                    threading.Thread(target=self._work, name="aotc-compile").start()
            state = "compilation running" if sizes in self._waiting else "compilation queued"
            return refusal("AOTC-E614", where, state)

    def close(self) -> None:
        """Release every executable and start no other compilation."""
        with self._lock:
            self._compile = None  # and with it the weights
            self._ready.clear()
            self._waiting.clear()

    def report(self) -> dict[str, Any]:
        """JSON: what was compiled, how long it took (seconds), what failed and why."""
        with self._lock:
            self._give_up_late()
            return {
                "module": self._module,
                "compiled": self.compiled,
                "seconds": self._spent,
                "given_up": self._given_up,
                "evicted": self._evicted,
                "ready": [
                    {"sizes": dict(key), "seconds": each.seconds, "calls": each.calls}
                    for key, each in self._ready.items()
                ],
                "waiting": [dict(key) for key in self._waiting],
                "failed": [
                    {"sizes": dict(key), "reason": reason} for key, reason in self._failed.items()
                ],
            }

    def _work(self) -> None:
        while (found := self._next()) is not None:
            sizes, compile_ = found
            started = monotonic()
            served, reason = None, ""
            try:
                served = compile_(dict(sizes))
            except AotcError as error:
                reason = error.findings[0].found
            except MemoryError:
                reason = "out of memory"
            self._done(sizes, served, reason, monotonic() - started)

    def _next(self) -> tuple[SizesKey, Callable[[dict[str, int]], Served]] | None:
        with self._lock:
            found = next((key for key, began in self._waiting.items() if began is None), None)
            is_ending = not threading.main_thread().is_alive()
            if found is None or self._compile is None or is_ending:
                self._is_working = False
                return None
            self._waiting[found] = monotonic()
            return found, self._compile

    def _done(self, sizes: SizesKey, served: Served | None, reason: str, seconds: float) -> None:
        with self._lock:
            self._spent += seconds
            self._give_up_late()
            if self._waiting.pop(sizes, None) is None:
                return  # given up, or closed
            if served is None:
                self._fail(sizes, reason)
                return
            self.compiled += 1
            self._ready[sizes] = _Ready(served, seconds)
            if len(self._ready) > self._most:
                self._ready.popitem(last=False)
                self._evicted += 1

    def _give_up_late(self) -> None:
        now = monotonic()
        for sizes, began in [*self._waiting.items()]:
            if began is not None and now - began > self._seconds:
                del self._waiting[sizes]
                self._given_up += 1
                self._fail(sizes, f"given up after {self._seconds} s")

    def _fail(self, sizes: SizesKey, reason: str) -> None:
        self._failed[sizes] = reason
        if len(self._failed) > FAILURES_MAX:
            self._failed.popitem(last=False)
