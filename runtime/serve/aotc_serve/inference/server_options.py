"""Options of `aotc-runtime serve`, with their defaults."""

from __future__ import annotations

import argparse
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

MIB = 2**20

PACE_BYTES = 2**14
"""Minimum bytes of a body or message that must arrive in each `header_seconds`."""


_MOST = ("body", "json", "tensor", "memory", "requests", "connections")


class Limits(Struct, frozen=True, rename={name: f"max_{name}" for name in _MOST}):
    """Limits of requests: sizes in bytes, times in seconds.

    `body` limits a request, `json` its JSON without binary data, `tensor` an input, and `memory`
    all requests and responses in flight. More than `requests` in flight are rejected; above
    `connections`, the one that has waited longest for a complete request is closed. Timeouts are
    `header_seconds` and `body_seconds` for receiving a request, `call_seconds` for the model,
    `write_seconds` for sending the response, and `idle_seconds` between requests. `age_seconds` is
    the maximum age of a gRPC connection.
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
    """Action of a server, which is then not ready, if a policy revokes a bundle."""

    STOP = "stop"
    DRAIN = "drain"
    SERVE = "serve"


class Options(Struct, frozen=True, rename={"policies": "trust", "as_json": "json"}):
    """Options of a server, by the names of the command line.

    `grpc_port` is None without gRPC. `store` is the artifact store for bundles of registries, as of
    `aotc_runtime.load`, and `ca` has certificates of registries. With `control`, clients may load
    and unload bundles, and with `shapes` read the sizes of calls. A request waits at most
    `max_delay` milliseconds for a batch; None disables batches. `traces` exports OpenTelemetry
    spans.
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
    shapes: bool = False
    max_delay: float | None = None
    traces: bool = False
    on_revoked: OnRevoked = OnRevoked.DRAIN
    drain_delay: float = 0
    drain_seconds: float = 30
    limits: Limits = Limits()
    as_json: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `serve`."""
    defaults, limits = Options((), ()), Limits()
    parser.add_argument(
        "bundles",
        nargs="+",
        metavar="BUNDLE",
        help="Bundle, oci:// reference, or directory of bundles",
    )
    parser.add_argument(
        "--trust",
        type=Path,
        required=True,
        action="append",
        metavar="FILE",
        help="Trust policy: one, or one per bundle",
    )
    parser.add_argument(
        "--host",
        default=defaults.host,
        metavar="ADDRESS",
        help=f"Address to listen on (default: {defaults.host})",
    )
    _number(parser, "--port", "PORT", int, defaults.port, "Port for HTTP, 0 for any free port")
    _number(
        parser, "--grpc-port", "PORT", int, None, "Port for gRPC, 0 for any free port", "no gRPC"
    )
    parser.add_argument(
        "--target", metavar="TARGET", help="Target to load (default: best for this host)"
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="Artifact store directory (default: $AOTC_STORE, else $XDG_CACHE_HOME/aotc-store)",
    )
    parser.add_argument(
        "--ca", type=Path, metavar="FILE", help="CA certificates for the registry (PEM)"
    )
    _number(parser, "--threads", "N", int, None, "Number of engine threads", "available CPUs")
    _number(
        parser, "--workers", "N", int, None, "Maximum number of concurrent calls", "available CPUs"
    )
    for name, what in (
        ("control", "Allow clients to load and unload bundles"),
        ("shapes", "Allow clients to read the sizes of calls"),
        ("traces", "Export OpenTelemetry spans for requests"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=what)
    _number(
        parser,
        "--max-delay",
        "MS",
        float,
        None,
        "Batch requests, waiting at most MS milliseconds",
        "no batching",
    )
    parser.add_argument(
        "--on-revoked",
        choices=[each.value for each in OnRevoked],
        default=defaults.on_revoked.value,
        help=f"Action if a policy revokes a bundle (default: {defaults.on_revoked.value})",
    )
    for name, value, what in (
        ("body", limits.body, "Maximum size of a request"),
        ("json", limits.json, "Maximum size of a request's JSON"),
        ("tensor", limits.tensor, "Maximum size of an input tensor"),
        ("memory", limits.memory, "Maximum memory of requests in flight"),
    ):
        parser.add_argument(
            f"--max-{name}",
            type=size_of,
            default=value,
            metavar="SIZE",
            help=f"{what} (default: {value // MIB}M)",
        )
    _number(parser, "--max-requests", "N", int, limits.requests, "Maximum requests in flight")
    _number(parser, "--max-connections", "N", int, limits.connections, "Maximum HTTP connections")
    for name, seconds, what in (
        ("drain-delay", defaults.drain_delay, "Seconds to keep serving after SIGTERM"),
        ("drain-seconds", defaults.drain_seconds, "Seconds to wait for requests in flight"),
        ("header-seconds", limits.header_seconds, "Timeout for receiving a request header"),
        ("body-seconds", limits.body_seconds, "Timeout for receiving a request body"),
        ("call-seconds", limits.call_seconds, "Timeout for a model call"),
        ("write-seconds", limits.write_seconds, "Timeout for sending a response"),
        ("idle-seconds", limits.idle_seconds, "Timeout of idle connections"),
        ("age-seconds", limits.age_seconds, "Maximum age of a gRPC connection"),
    ):
        _number(parser, f"--{name}", "SECONDS", float, seconds, what)


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
        help=f"{what} (default: {otherwise or f'{default:g}'})",
    )


def size_of(text: str) -> int:
    """Parse a size such as `64M` and return bytes. Raises ArgumentTypeError."""
    units = {"K": 2**10, "M": MIB, "G": 2**30}
    unit = units.get(text[-1:].upper(), 1)
    number = text[:-1] if unit > 1 else text
    if not number.isdecimal() or len(number) > 15 or not int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64M")
    return int(number) * unit


def options_of(given: argparse.Namespace) -> Options:
    """Return the options of a parsed command line."""
    several = {"threads": given.threads or None, "workers": given.workers or None}
    return msgspec.convert({**vars(given), **several, "limits": vars(given)}, Options)
