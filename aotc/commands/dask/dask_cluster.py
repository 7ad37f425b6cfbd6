"""Dask distributed as an executor: https://distributed.dask.org/en/stable/client.html#dask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from aotc.base.errors import refusal
from aotc.commands.dask import executor_worker
from aotc.commands.dask.executor_backend import Cluster
from aotc.pipeline.cache.bounded_calls import Bounded, OutageError

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
        """Why it is no use to wait any longer; empty while there is hope. Dask itself would wait
        for new workers for ever.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._looked < LOOK_SECONDS:
                return ""
            self._looked = now
        try:
            known = Bounded(CONNECT_SECONDS).call(
                lambda _: self._client.scheduler_info(n_workers=1)
            )
        except OutageError as error:
            return f"no answer from the scheduler: {error}"
        if known["workers"]:
            self._seen = time.monotonic()
            return ""
        waited = time.monotonic() - self._seen
        return f"no worker for {waited:.0f} s" if waited > self._patience else ""

    def stop_build(self, build: str) -> None:
        """Stop what workers compile for a build, without waiting until they have stopped."""
        bounded = Bounded(STOP_SECONDS)
        try:
            bounded.call(
                lambda _: self._client.run(executor_worker.stop_build, build, on_error="ignore")
            )
        except OutageError:
            return  # workers that this does not reach end their compilations by themselves

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the connection; scheduler and workers go on."""
        try:
            Bounded(STOP_SECONDS).call(lambda _: self._client.close(timeout=STOP_SECONDS))
        except OutageError:
            return


def connect(url: str, patience: float = PATIENCE_SECONDS) -> DaskCluster:
    """The cluster at dask://HOST:PORT or, with Dask's own settings for certificates,
    dask+tls://HOST:PORT. patience: seconds without any worker, until a build gives up.

    Raises UsageError: AOTC-E064 another URL, or Dask is not installed, E065 no answer.
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
        raise refusal(
            "AOTC-E065", f"--executor {url}", f"{type(error).__name__}: {error}"
        ) from error
    return DaskCluster(client, patience)


def _silence() -> None:
    """Keep Dask's log off the terminal: lost connections are reported as findings. Some of its
    loggers have levels of their own, so that setting the parent's is not enough.
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
