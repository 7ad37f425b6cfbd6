"""`aotc-runtime serve`: the entry point `serve` of the group `aotc_runtime.commands`."""

from __future__ import annotations

import argparse
import signal

from aotc_runtime.base.errors import refusal
from aotc_serve.inference.server_options import add_arguments, options_of

__all__ = ["HELP", "add_arguments", "run"]

HELP = "Serve bundles by the Open Inference Protocol"

PACKAGES = ("google", "grpc", "httptools", "prometheus_client", "starlette", "uvicorn")
"""Imported names of the extra `serve`."""


def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends the process.

    Raises IncompatibleRuntimeError (AOTC-E406) if packages of the extra `serve` are missing, and
    what starting the server raises.
    """
    # A request for a reload while the server starts would end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from aotc_serve.server_process import run as run_server
    except ImportError as error:
        if (name := (error.name or "").partition(".")[0]) in PACKAGES:
            raise refusal("AOTC-E406", "serve", f"no {name}") from error
        raise
    run_server(options_of(options))
