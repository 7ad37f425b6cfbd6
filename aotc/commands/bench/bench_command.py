"""`aotc bench`."""

from __future__ import annotations

import math
import os
from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import BUNDLE_FILE, trust_option
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Run and measure"

THREADS_MAX = 1024
SECONDS_RANGE = (0.001, 3600)


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    # nan is within every range.
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", context, option)
    return value


@click.command(short_help="Measure cold start, calls, throughput and memory here.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.argument("entry_point", required=False)
@trust_option("The trust policy.", required=True)
@target_option("A target of the bundle; default: best for this host.")
@click.option("--profile", help="Only profiles with these sizes: batch=8 or batch=1,seq=16.")
@click.option(
    "--threads",
    type=click.IntRange(1, THREADS_MAX),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="available CPUs",
    help="The most threads that call at once.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(*SECONDS_RANGE),
    default=1.0,
    show_default=True,
    callback=_finite,
    help="Seconds of calls per measurement.",
)
@command
def bench(
    out: Output,
    bundle: Path,
    entry_point: str | None,
    trust: Path,
    target: str | None,
    profile: str | None,
    threads: int,
    seconds: float,
) -> None:
    """Measure a bundle on this machine: cold start, calls, throughput, memory.

    Fresh processes load it with the runtime alone, as a server would, and call it with the
    inputs of its own fixtures.

    \b
    aotc bench digits-1.0.0.aotb --trust trust.toml --profile batch=8
    """
    from aotc.cli.command_progress import progress
    from aotc.commands.bench.bench_processes import measure

    with progress(quiet=out.json) as on_stage:
        document = measure(
            bundle,
            entry_point,
            trust,
            target=target,
            profile=profile,
            threads=threads,
            seconds=seconds,
            on_stage=on_stage,
        )

    def text() -> None:
        from aotc.commands.bench.bench_text import bench_lines

        say(*bench_lines(document))

    out.result(document, text)
