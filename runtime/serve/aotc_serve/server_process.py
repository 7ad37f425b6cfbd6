"""The process of `python -m aotc_runtime serve`: its parts, signals, an end without losses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import uvicorn

try:
    import uvloop
except ImportError:
    uvloop = None

from aotc_runtime.base.errors import refusal
from aotc_runtime.base.rendering import json_line, log_field
from aotc_serve.http.http_app import Rest
from aotc_serve.http.http_connections import bounded_protocol
from aotc_serve.http.listen_socket import BACKLOG, Listening, raise_file_limit
from aotc_serve.inference.server_metrics import Metrics
from aotc_serve.inference.server_options import OnRevoked, Options
from aotc_serve.service.bundle_repository import Repository, Tell
from aotc_serve.service.request_service import Service
from aotc_serve.service.served_loading import Settings

if TYPE_CHECKING:
    from aotc_serve.grpc.grpc_server import GrpcServer
    from aotc_serve.inference.request_spans import Traces

LAST_SECONDS = 0.2
"""Time in which a stopping server still takes requests, so that clients with open connections
learn of its end with their next response.
"""

FIRST_SECONDS = 1.0
"""Timeout of a new connection's first request while the server stops: one is about to come."""

STEP_SECONDS = 0.02

ACCEPTED_AT_ONCE = 128
"""Connections that asyncio accepts in one turn of its loop; uvloop has a limit of its own. With as
many as the queue holds, the process would run out of files before it could refuse any.
"""


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises an AotcError if it cannot start."""
    # uvloop's takes less time for each request.
    factory = None if uvloop is None else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(options))


class _Uvicorn(uvicorn.Server):
    """uvicorn, which leaves the signals to us, and loses no request when it ends."""

    def __init__(self, config: uvicorn.Config, listening: Listening) -> None:
        super().__init__(config)
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # asyncio takes the length of the queue for the number to accept at once.
        self._listening.socket.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.sleep(LAST_SECONDS)
        # Closing the socket would reset the connections that are in its queue.
        queued = self._listening.stop()
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for each in queued:
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._connection, each)
        end = loop.time() + FIRST_SECONDS
        while loop.time() < end and any(
            not connection.was_asked  # type: ignore[union-attr]
            for connection in self.server_state.connections
        ):
            await asyncio.sleep(STEP_SECONDS)
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state={})


async def _serve(options: Options) -> None:
    metrics = Metrics()
    tell = _counting(_teller(options.as_json), metrics)
    settings = Settings(options.target, options.threads, options.store, ca=options.ca)
    revocation = _Revocation(options)
    repository = Repository(
        options.bundles, options.policies, settings, tell, revocation.ask_from_thread
    )
    revocation.repository = repository
    meaning = "Bundles that serve, or did, and that their policy has revoked since"
    metrics.watch_gauge("aotc_server_revoked_bundles", meaning, lambda: repository.revoked)
    delay = None if options.max_delay is None else options.max_delay / 1000
    traces = _traces() if options.traces else None
    service = Service(repository, options.limits, metrics, options.workers, delay, traces)
    listening = Listening(options.host, options.port)
    raise_file_limit(options.limits.connections)
    rest = Rest(service, options.control, shapes=options.shapes)
    config = uvicorn.Config(
        rest.application(),
        http=bounded_protocol(service.limits, metrics, service.memory, rest.at_once),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=int(options.limits.idle_seconds) or 1,
        timeout_graceful_shutdown=int(options.drain_seconds) or 1,
    )
    server = _Uvicorn(config, listening)
    connections, meaning = server.server_state.connections, "Connections of HTTP that are open"
    metrics.watch_gauge("aotc_server_connections", meaning, lambda: len(connections))
    grpc: GrpcServer | None = None
    if options.grpc_port is not None:
        from aotc_serve.grpc.grpc_server import GrpcServer

        grpc = await GrpcServer.start(service, options)
    stop = _Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask, number)
    reloads = _Reloads(repository)
    loop.add_signal_handler(signal.SIGHUP, reloads.ask)
    http = asyncio.create_task(server.serve(sockets=[listening.socket]))
    host, port = listening.host, listening.port
    tell(
        "listening",
        {
            "http": f"http://{f'[{host}]' if ':' in host else host}:{port}",
            **({"grpc": f"{grpc.host}:{grpc.port}"} if grpc is not None else {}),
        },
    )
    loading = asyncio.create_task(asyncio.to_thread(repository.load_all, strict=True))
    try:
        asked = asyncio.create_task(stop.asked.wait())
        await asyncio.wait([loading, asked, http], return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            # A collection of everything that was imported takes 40 to 110 ms, for all clients.
            gc.collect()
            gc.freeze()
            tell("ready", {})
            for reason, models in service.batching().items():
                why = {"reason": reason} if reason else {}
                tell("not-joined" if reason else "joined", {"models": models, **why})
                metrics.batching(reason, len(models))
        await asyncio.wait([asked, http], return_when=asyncio.FIRST_COMPLETED)
        service.is_draining = True
        tell("ending", {"requests": service.requests})
        await stop.pause(options.drain_delay)
        if grpc is not None:
            await grpc.stop(options.drain_seconds)
    finally:
        server.should_exit = True
        if grpc is not None:
            await grpc.stop(0)
        await http
        service.close()
        reloads.close()
        revocation.close()
    tell("ended", {})
    if not loading.done() or repository.is_loading:
        # A thread that waits for a registry, or is in the engine's own code, cannot be interrupted;
        # there is nothing left to lose.
        sys.stdout.flush()
        os._exit(0)
    repository.close()


def _traces() -> Traces:
    """Raises an AotcError (AOTC-E406) where OpenTelemetry is not installed."""
    try:
        from aotc_serve.inference.request_spans import Traces
    except ImportError as error:
        found, cause = f"no {error.name}", "opentelemetry-is-not-installed"
        raise refusal("AOTC-E406", "serve --traces", found, cause=cause) from error
    return Traces()


class _Stop:
    """Requests to stop: a second one skips --drain-delay, a third ends at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._again = asyncio.Event()

    def ask(self, number: int) -> None:
        if self.asked.is_set():
            if self._again.is_set():
                os._exit(128 + number)
            self._again.set()
        self.asked.set()

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._again.wait(), seconds)


class _Reloads:
    """Loads what was changed whenever SIGHUP asks, one after the other."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False

    def ask(self) -> None:
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            await asyncio.to_thread(self._repository.load_all, strict=False)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()


class _Revocation:
    """Withdraws what its policy has revoked, as `--on-revoked` has it."""

    repository: Repository

    def __init__(self, options: Options) -> None:
        self._mode, self._delay = options.on_revoked, options.drain_delay
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def ask_from_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._ask)

    def _ask(self) -> None:
        if self._mode is not OnRevoked.SERVE:
            task = asyncio.create_task(self._withdraw())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _withdraw(self) -> None:
        if self._mode is OnRevoked.DRAIN:
            await asyncio.sleep(self._delay)
        await asyncio.to_thread(self.repository.withdraw_revoked)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _counting(tell: Tell, metrics: Metrics) -> Tell:
    """Return a `Tell` that also counts what becomes of bundles."""
    results = {"serving": "loaded", "unchanged": "unchanged", "refused": "refused"}

    def counted(event: str, facts: dict[str, object]) -> None:
        if event in results:
            metrics.count_reload(results[event], facts.get("codes", ("",)))  # type: ignore[arg-type]
        tell(event, facts)

    return counted


def _teller(as_json: bool) -> Tell:
    """Return what prints an event in one line, with its time: as JSON, or as text."""

    def tell(event: str, facts: dict[str, object]) -> None:
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if as_json:
            line = json_line({"event": event, "time": time, **facts})
        else:
            named = (f"{name}={log_field(value)}" for name, value in facts.items())
            line = " ".join([time, event, *named])
        with contextlib.suppress(OSError, ValueError):
            print(line, flush=True)

    return tell
