"""Dask distributed as an executor: https://distributed.dask.org/en/stable/client.html#dask."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from aotc.base.errors import refusal
from aotc.commands.dask import executor_worker
from aotc.commands.dask.executor_backend import Cluster

SCHEMES = {"dask": "tcp", "dask+tls": "tls"}
"""Schemes of `--executor` URLs to those of Dask."""

CONNECT_SECONDS = 20.0
STOP_SECONDS = 5.0

LOOK_SECONDS = 5.0
"""How often the scheduler is asked whether it has workers."""

PATIENCE_SECONDS = 60.0
"""How long a build waits without any worker; new ones take about as long to start."""


class DaskCluster(Cluster):
    """The workers of a Dask scheduler. client: `distributed.Client`.  patience: as of `connect`."""

    def __init__(self, client: Any, patience: float) -> None:
        self._client, self._patience = client, patience
        # Dask would otherwise return the result of an earlier call with equal arguments.
        self._executor = client.get_executor(pure=False)
        self._lock = threading.Lock()
        self._looked = self._seen = time.monotonic()

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call on one of the cluster's workers."""
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def trouble(self) -> str:
        """Return why waiting is pointless, or "": Dask would wait for new workers forever."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < LOOK_SECONDS:
                return ""
            self._looked = now
        try:
            known = _within(CONNECT_SECONDS, lambda: self._client.scheduler_info(n_workers=1))
        except _FailedError as error:
            return f"no answer from the scheduler: {error}"
        if known["workers"]:
            self._seen = time.monotonic()
            return ""
        waited = time.monotonic() - self._seen
        return f"no worker for {waited:.0f} s" if waited > self._patience else ""

    def stop_build(self, build: str) -> None:
        """Stop what workers compile for a build, without waiting until they have stopped."""
        # Workers that this does not reach end their compilations by themselves.
        with suppress(_FailedError):
            _within(
                STOP_SECONDS,
                lambda: self._client.run(executor_worker.stop_build, build, on_error="ignore"),
            )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the connection; scheduler and workers go on."""
        with suppress(_FailedError):
            _within(STOP_SECONDS, lambda: self._client.close(timeout=STOP_SECONDS))


class _FailedError(Exception):
    """A call of Dask that failed, or did not end in time."""


def _within[T](seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a call of Dask. Raises _FailedError.

    The call may wait forever; then its thread is left behind.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="aotc-dask").start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise _FailedError(f"no answer within {seconds:.1f} s") from error
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise _FailedError(f"{type(error).__name__}: {first}") from error


def connect(url: str, patience: float = PATIENCE_SECONDS) -> DaskCluster:
    """Return the cluster at dask://HOST:PORT or dask+tls://HOST:PORT.

    The latter uses Dask's own settings for certificates. A build gives up after `patience` seconds
    without any worker.

    Raises:
        UsageError: AOTC-E064 another URL, or Dask is not installed, E065 no connection.
    """
    address = _address(url)
    if find_spec("distributed") is None:
        raise refusal("AOTC-E064", f"--executor {url}", "", cause="dask-is-not-installed")
    import dask
    from distributed import Client

    _silence()
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="aotc")
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise refusal("AOTC-E065", f"--executor {url}", found) from error
    return DaskCluster(client, patience)


def _silence() -> None:
    """Keep Dask's log off the terminal: lost connections are reported as findings.

    Some of its loggers have levels of their own, so that setting the parent's is not enough.
    """
    for name in ["distributed", *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _address(url: str) -> str:
    where = f"--executor {url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refusal("AOTC-E064", where, str(error)) from error
    if parts.scheme not in SCHEMES or not parts.hostname or not port:
        raise refusal("AOTC-E064", where, "")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{SCHEMES[parts.scheme]}://{host}:{port}"
