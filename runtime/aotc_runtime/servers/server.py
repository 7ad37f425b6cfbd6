"""The process of `python -m aotc_runtime serve`: sockets, signals, an end without losses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING

import msgspec
import uvicorn

from aotc_runtime.errors import refusal
from aotc_runtime.servers.connections import bounded
from aotc_runtime.servers.loading import Settings
from aotc_runtime.servers.metrics import Metrics
from aotc_runtime.servers.options import Options
from aotc_runtime.servers.repository import Repository
from aotc_runtime.servers.rest import Rest
from aotc_runtime.servers.service import Service
from aotc_runtime.servers.statuses import not_listening, not_passed

if TYPE_CHECKING:
    from aotc_runtime.servers.grpc_server import GrpcServer
    from aotc_runtime.servers.traces import Traces

SYSTEMD_SOCKETS = 3
"""The number of the first socket that systemd passes on."""

BACKLOG = 4096

LAST_SECONDS = 0.2
"""How long requests are still taken from connections that are there when the server ends. Clients
that keep a connection are told so with their next answer; a request may be on its way.
"""


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises an AotcError if it cannot start."""
    with asyncio.Runner(loop_factory=_loop()) as runner:
        runner.run(_serve(options))


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, which takes less time for each request, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


class _Uvicorn(uvicorn.Server):
    """uvicorn, which leaves the signals to us, and loses no request when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The system has accepted them for us, and would reset them with the socket.
        queued = [each for listening in sockets or () for each in _queued(listening)]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for each in queued:
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._connection, each)
        if self.server_state.connections:
            await asyncio.sleep(LAST_SECONDS)
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state={})


def _queued(listening: socket.socket) -> list[socket.socket]:
    """The connections that nobody has taken yet."""
    found: list[socket.socket] = []
    with contextlib.suppress(OSError):
        while len(found) < BACKLOG:
            found.append(listening.accept()[0])
    return found


async def _serve(options: Options) -> None:
    tell = _teller(options.as_json)
    metrics = Metrics()
    settings = Settings(options.target, options.threads, options.store, ca=options.ca)
    repository = Repository(options.bundles, options.policies, settings, tell)
    delay = None if options.max_delay is None else options.max_delay / 1000
    traces = _traces() if options.traces else None
    service = Service(repository, options.limits, metrics, options.workers, delay, traces)
    listening = _socket(options.host, options.port)
    _raise_file_limit(options.limits.connections)
    rest = Rest(service, options.control)
    config = uvicorn.Config(
        rest.application(),
        http=bounded(options.limits, metrics, rest.at_once),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(options.limits.idle_seconds) or 1,
        timeout_graceful_shutdown=int(options.drain_seconds) or 1,
    )
    server = _Uvicorn(config)
    metrics.watch_connections(lambda: len(server.server_state.connections))
    grpc: GrpcServer | None = None
    if options.grpc_port is not None:
        from aotc_runtime.servers.grpc_server import GrpcServer

        grpc = await GrpcServer.started(service, options)
    stop = _Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    reloads = _Reloads(repository)
    loop.add_signal_handler(signal.SIGHUP, reloads.ask)
    http = asyncio.create_task(server.serve(sockets=[listening]))
    host, port = listening.getsockname()[:2]
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
            tell("ready", {})
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
    tell("ended", {})
    if not loading.done():
        # A thread in the engine's own code cannot be interrupted; there is nothing left to lose.
        sys.stdout.flush()
        os._exit(0)
    repository.close()


def _traces() -> Traces:
    """Raises an AotcError (AOTC-E406) where OpenTelemetry is not installed."""
    try:
        from aotc_runtime.servers.traces import Traces
    except ImportError as error:
        raise refusal(
            "AOTC-E406",
            "serve --traces",
            f"no {error.name}",
            expected="the extra aotc-runtime[opentelemetry]",
            hint="in a clone of aotc, `pip install './runtime[serve,opentelemetry]'`",
        ) from error
    return Traces()


class _Stop:
    """That somebody wants the server to end; who asks again does not want to wait."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._again = asyncio.Event()

    def ask(self) -> None:
        if self.asked.is_set():
            if self._again.is_set():
                os._exit(1)
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


def _teller(as_json: bool) -> Callable[[str, dict[str, object]], None]:
    """Prints events: a line of JSON each, or text."""

    def tell(event: str, facts: dict[str, object]) -> None:
        if as_json:
            line = msgspec.json.encode({"event": event, **facts}).decode()
        else:
            line = " ".join([event, *(f"{name}={_text(value)}" for name, value in facts.items())])
        with contextlib.suppress(OSError, ValueError):
            print(line, flush=True)

    return tell


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _socket(host: str, port: int) -> socket.socket:
    """The one that systemd has opened, or a new one. Raises ServerError (AOTC-E782)."""
    if (passed := _passed(os.environ)) is not None:
        return passed
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)  # before anybody is told the address
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        raise not_listening(f"{host}:{port}", str(error)) from error
    return listening


def _passed(environment: MutableMapping[str, str]) -> socket.socket | None:
    """What systemd has opened for this process, as sd_listen_fds(3) says; None if it has not, or
    for another one. Raises ServerError (AOTC-E782) for anything but one socket that listens.
    """
    named = [environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")]
    if named[0] != str(os.getpid()) or named[1] in ("", "0"):
        return None
    if named[1] != "1":
        raise not_passed(f"{named[1]} of them")
    try:
        found = socket.socket(fileno=SYSTEMD_SOCKETS)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise not_passed(error.strerror or str(error)) from error
    is_tcp = found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6)
    if not (is_tcp and listens):
        shown = f"{found.family.name} {found.type.name}{'' if listens else ', not listening'}"
        found.detach()
        raise not_passed(shown)
    found.set_inheritable(False)
    return found


def _raise_file_limit(connections: int) -> None:
    """Let this process have a descriptor for each connection, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 1024
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
