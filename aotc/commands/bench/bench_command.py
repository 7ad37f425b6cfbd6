"""`aotc bench`."""

import math
import os
from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, profile_option, trust_option
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Inspect and verify"

THREADS_MAX = 1024
SECONDS_RANGE = (0.001, 3600)


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    # nan is within every range.
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number.", context, option)
    return value


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.argument("entry_point", required=False, help="Entry point to measure; all by default")
@trust_option(required=True)
@target_option("Target to load", default="best for this host")
@profile_option
@click.option(
    "--threads",
    type=click.IntRange(1, THREADS_MAX),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="available CPUs",
    metavar="N",
    help="Maximum number of calling threads",
)
@click.option(
    "--seconds",
    type=click.FloatRange(*SECONDS_RANGE),
    default=1.0,
    show_default=True,
    callback=_finite,
    metavar="SECONDS",
    help="Duration of each measurement",
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
    """Measure load time, latency, throughput, and memory.

    Loads the bundle in new processes, with the runtime only, and calls it with the inputs of its
    fixtures by 1, 2, 4, ... threads. With --json, times of the cold start are seconds, and names
    that end in `_us` and `_bytes` have that unit.

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
