"""A bundle that is being loaded in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn

from aotc_runtime.base.errors import AotcError, refusal
from aotc_runtime.serving.loaded_bundle import State

if TYPE_CHECKING:
    from aotc_runtime.serving.loaded_bundle import LoadedBundle

Work = Callable[[Callable[[State], None]], "LoadedBundle"]


class Loading:
    """The handle that `load(..., wait=False)` returns: poll `state`, or `wait`, or await it."""

    def __init__(self, work: Work) -> None:
        self._state = State.VERIFYING
        self._future: Future[LoadedBundle] = Future()
        # From now on nobody can cancel it: a task that awaits it may end before it is done.
        self._future.set_running_or_notify_cancel()
        # A daemon: a process that gives up while a bundle loads need not wait for it.
        threading.Thread(target=self._run, args=(work,), name="aotc-load", daemon=True).start()

    def _run(self, work: Work) -> None:
        try:
            bundle = work(self._enter)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits, as it is
            self._enter(State.FAILED)
            self._future.set_exception(error)
        else:
            self._enter(State.READY)
            self._future.set_result(bundle)

    def _enter(self, state: State) -> None:
        self._state = state

    @property
    def state(self) -> State:
        """Where loading is; never ready before the last fixture has matched."""
        return self._state

    @property
    def error(self) -> AotcError | None:
        """Why it failed, if it did."""
        error = self._future.exception() if self._future.done() else None
        return error if isinstance(error, AotcError) else None

    def wait(self, timeout: float | None = None) -> LoadedBundle:
        """The bundle, once it is ready. timeout: seconds.

        Raises what `load` raises, TimeoutError if it is not done by then.
        """
        try:
            return self._future.result(timeout)
        except TimeoutError:
            if self._future.done():
                raise
            text = f"the bundle is still {self._state.value} after {timeout} s"
            raise TimeoutError(text) from None

    def __getitem__(self, name: str) -> NoReturn:
        """Raises ShapeError (AOTC-E633): entry points are those of the bundle, once it is ready."""
        raise refusal(
            "AOTC-E633",
            f"entry point {name!r}",
            f"the handle of one that is {self._state.value}",
            expected="a bundle that is ready",
            hint="take it from what wait() returns",
        )

    def __await__(self) -> Generator[Any, None, LoadedBundle]:
        import asyncio

        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return f"<loading: {self._state.value}>"
