"""`aotc serve`."""

from __future__ import annotations

import os
import sys

import click

from aotc.cli.command_output import Output, command


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="BUNDLE... --trust FILE [...]",
    help="Arguments of `aotc-runtime serve`",
)
@command
def serve(out: Output, arguments: tuple[str, ...]) -> None:
    """Serve bundles by the Open Inference Protocol.

    Runs `aotc-runtime serve`, whose `--help` lists all options, with these arguments in place of
    this process.

    \b
    aotc serve digits-1.0.0.aotb --trust trust.toml --port 8000

    Exit codes are those of `aotc-runtime serve`.
    """
    given = [*arguments, *(["--json"] if out.json else [])]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "aotc_runtime", "serve", *given])
