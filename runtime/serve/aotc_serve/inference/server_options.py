"""What a server may be told: the options of `python -m aotc_runtime serve`, with their defaults."""

from __future__ import annotations

import argparse
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

MIB = 2**20


class Limits(Struct, frozen=True):
    """What a client may ask for. Sizes in bytes, times in seconds.

    body: of one request.  json: its JSON, without the binary data behind it.  tensor: one input.
    memory: all requests and answers that are under way, together.  requests: that are under way;
    more are turned away at once.  connections: likewise; the one is closed that has been waiting
    longest for a whole request.
    header_seconds: until a request's header is there.  body_seconds: its body.  call_seconds: the
    answer.  write_seconds: until a client has taken what was sent.  idle_seconds: between requests.
    age_seconds: a connection of gRPC.
    """

    body: int = 64 * MIB
    json: int = 4 * MIB
    tensor: int = 64 * MIB
    memory: int = 1024 * MIB
    requests: int = 1024
    connections: int = 8192
    header_seconds: float = 10
    body_seconds: float = 60
    call_seconds: float = 60
    write_seconds: float = 60
    idle_seconds: float = 75
    age_seconds: float = 3600


class OnRevoked(StrEnum):
    """What a server does with a bundle that its policy has revoked, beside not being ready."""

    STOP = "stop"
    DRAIN = "drain"
    SERVE = "serve"


class Options(Struct, frozen=True):
    """Everything that `serve` is started with. grpc_port: None for no gRPC.  store: for bundles of
    registries, as for `aotc_runtime.load`.  ca: certificates that theirs are signed with.

    control: whether bundles may be loaded and unloaded over the network.  max_delay: milliseconds
    that a request may wait for others to be joined with; None to join nothing.  traces: whether
    requests are told to OpenTelemetry.
    """

    bundles: tuple[str, ...]
    policies: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    target: str | None = None
    store: Path | None = None
    ca: Path | None = None
    threads: int | None = None
    workers: int | None = None
    control: bool = False
    max_delay: float | None = None
    traces: bool = False
    on_revoked: OnRevoked = OnRevoked.DRAIN
    drain_delay: float = 0
    drain_seconds: float = 30
    limits: Limits = Limits()
    as_json: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `serve`."""
    defaults, limits = Options((), ()), Limits()
    parser.add_argument(
        "bundles", nargs="+", metavar="BUNDLE", help="a bundle, oci://… or a folder of .aotb files"
    )
    parser.add_argument(
        "--trust",
        type=Path,
        required=True,
        action="append",
        metavar="POLICY",
        help="the trust policy; one for all bundles, or one for each in their order",
    )
    parser.add_argument(
        "--host", default=defaults.host, help=f"address to listen at; default: {defaults.host}"
    )
    _number(parser, "--port", "PORT", int, defaults.port, "of HTTP; 0 for a free one")
    _number(parser, "--grpc-port", "PORT", int, None, "of gRPC; 0 for a free one", "no gRPC")
    parser.add_argument("--target", help="a target of the bundles; default: best for this host")
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="for bundles of registries; default: $AOTC_STORE, or the user's cache",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="PEM certificates that those of registries have to be signed with",
    )
    _number(parser, "--threads", "N", int, None, "of the engine", "one for each processor")
    _number(parser, "--workers", "N", int, None, "calls at the same time", "one for each processor")
    parser.add_argument(
        "--control", action="store_true", help="let clients load and unload bundles"
    )
    _number(
        parser,
        "--max-delay",
        "MS",
        float,
        None,
        "join requests; one may wait so long for others",
        "join nothing",
    )
    parser.add_argument(
        "--traces", action="store_true", help="a span for each request, to OpenTelemetry"
    )
    parser.add_argument(
        "--on-revoked",
        choices=[each.value for each in OnRevoked],
        default=defaults.on_revoked.value,
        help="serve a bundle that its policy revokes no more, so after --drain-delay, or on; "
        f"the server is not ready; default: {defaults.on_revoked.value}",
    )
    _number(
        parser,
        "--drain-delay",
        "S",
        float,
        defaults.drain_delay,
        "serve on after SIGTERM, not ready",
    )
    _number(
        parser,
        "--drain-seconds",
        "S",
        float,
        defaults.drain_seconds,
        "wait for requests that are under way",
    )
    size = "bytes, or with K, M or G behind it"
    for name, value, what in (
        ("body", limits.body, f"size of a request: {size}"),
        ("json", limits.json, "size of its JSON"),
        ("tensor", limits.tensor, "size of one input"),
        ("memory", limits.memory, "size of all requests under way"),
    ):
        parser.add_argument(
            f"--max-{name}",
            type=size_of,
            default=value,
            metavar="SIZE",
            help=f"{what}; default: {value // MIB}M",
        )
    _number(parser, "--max-requests", "N", int, limits.requests, "requests under way")
    _number(parser, "--max-connections", "N", int, limits.connections, "connections of HTTP")
    for name, seconds, what in (
        ("header", limits.header_seconds, "until a request's header is there"),
        ("body", limits.body_seconds, "until its body is there"),
        ("call", limits.call_seconds, "until the answer is there"),
        ("write", limits.write_seconds, "until a client has taken its answer"),
        ("idle", limits.idle_seconds, "that a connection may be idle"),
        ("age", limits.age_seconds, "that a connection of gRPC may last"),
    ):
        _number(parser, f"--{name}-seconds", "S", float, seconds, what)


def _number(
    parser: argparse.ArgumentParser,
    name: str,
    metavar: str,
    kind: type[int] | type[float],
    default: float | None,
    what: str,
    otherwise: str = "",
) -> None:
    def parse(text: str) -> float:
        value = kind(text)
        if not 0 <= value < 2**31:
            raise ValueError
        return value

    parse.__name__ = "number"
    parser.add_argument(
        name,
        type=parse,
        default=default,
        metavar=metavar,
        help=f"{what}; default: {otherwise or f'{default:g}'}",
    )


def size_of(text: str) -> int:
    """64M and the like, in bytes. Raises ValueError."""
    units = {"K": 2**10, "M": MIB, "G": 2**30}
    unit = units.get(text[-1:].upper(), 1)
    size = int(text[:-1] if unit > 1 else text) * unit
    if size < 1:
        raise ValueError
    return size


def options_of(given: argparse.Namespace) -> Options:
    """What was parsed."""
    return Options(
        bundles=tuple(given.bundles),
        policies=tuple(given.trust),
        host=given.host,
        port=given.port,
        grpc_port=given.grpc_port,
        target=given.target,
        store=given.store,
        ca=given.ca,
        threads=given.threads or None,
        workers=given.workers or None,
        control=given.control,
        max_delay=given.max_delay,
        traces=given.traces,
        on_revoked=OnRevoked(given.on_revoked),
        drain_delay=given.drain_delay,
        drain_seconds=given.drain_seconds,
        limits=Limits(
            body=given.max_body,
            json=given.max_json,
            tensor=given.max_tensor,
            memory=given.max_memory,
            requests=given.max_requests,
            connections=given.max_connections,
            header_seconds=given.header_seconds,
            body_seconds=given.body_seconds,
            call_seconds=given.call_seconds,
            write_seconds=given.write_seconds,
            idle_seconds=given.idle_seconds,
            age_seconds=given.age_seconds,
        ),
        as_json=given.json,
    )
