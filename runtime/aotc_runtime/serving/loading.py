"""A bundle that is being loaded in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from aotc_runtime.errors import AotcError, Finding, ShapeError
from aotc_runtime.serving.states import State

if TYPE_CHECKING:
    from aotc_runtime.serving.loaded import LoadedBundle

Work = Callable[[Callable[[State], None]], "LoadedBundle"]


class Loading:
    """The handle that `load(..., wait=False)` returns: poll `state`, or `wait`, or await it."""

    def __init__(self, work: Work) -> None:
        self._state = State.VERIFYING
        self._bundle: LoadedBundle | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._listeners: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        # A daemon: a process that gives up while a bundle loads need not wait for it.
        threading.Thread(target=self._run, args=(work,), name="aotc-load", daemon=True).start()

    def _run(self, work: Work) -> None:
        try:
            self._bundle = work(self._enter)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits, as it is
            self._error = error
            self._enter(State.FAILED)
        else:
            self._enter(State.READY)
        with self._lock:
            self._done.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def _enter(self, state: State) -> None:
        self._state = state

    @property
    def state(self) -> State:
        """Where loading is; never ready before the last fixture has matched."""
        return self._state

    @property
    def error(self) -> AotcError | None:
        """Why it failed, if it did."""
        return self._error if isinstance(self._error, AotcError) else None

    def wait(self, timeout: float | None = None) -> LoadedBundle:
        """The bundle, once it is ready. timeout: seconds.

        Raises what `load` raises, TimeoutError if it is not done by then.
        """
        if not self._done.wait(timeout):
            raise TimeoutError(f"the bundle is still {self._state.value} after {timeout} s")
        if self._error is not None:
            raise self._error
        assert self._bundle is not None, "done without an error"
        return self._bundle

    def __getitem__(self, name: str) -> NoReturn:
        """Raises ShapeError (AOTC-E633): entry points are those of the bundle, once it is ready."""
        raise ShapeError(
            Finding(
                code="AOTC-E633",
                where=f"entry point {name!r}",
                expected="a bundle that is ready",
                found=f"the handle of one that is {self._state.value}",
                hint="take it from what wait() returns",
            )
        )

    def __await__(self) -> Generator[Any, None, LoadedBundle]:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not future.done():
                future.set_result(None)

        with self._lock:
            if self._done.is_set():
                finish()
            else:
                self._listeners.append(partial(loop.call_soon_threadsafe, finish))
        yield from future
        return self.wait(0)

    def __repr__(self) -> str:
        return f"<loading: {self._state.value}>"
