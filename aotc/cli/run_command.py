"""`aotc run`."""

from __future__ import annotations

import math
from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.reference_options import BUNDLE_FILE
from aotc.cli.target_option import target_names


def _tolerance(context: click.Context, option: click.Parameter, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise click.BadParameter(f"{value} is not a finite number of at least 0.", context, option)
    return value


@click.command(short_help="Load a bundle as production would, and call it once.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.argument("entry_point")
@click.option("--trust", required=True, type=FILE, help="The trust policy.")
@click.option(
    "--target",
    shell_complete=target_names,
    help="A target of the bundle; default: best for this host.",
)
@click.option(
    "--input", "inputs", multiple=True, help="NAME=@x.npy, @all.npz or NAME=8x64xf32[=1]."
)
@click.option("--output", type=FILE, help="Write results to this .npz file.")
@click.option("--expect", multiple=True, help="NAME=@y.npy: compare a result with this.")
@click.option(
    "--rtol",
    default=1e-5,
    show_default=True,
    callback=_tolerance,
    help="Relative tolerance of --expect.",
)
@click.option(
    "--atol",
    default=1e-6,
    show_default=True,
    callback=_tolerance,
    help="Absolute tolerance of --expect.",
)
@command
def run(
    out: Output,
    bundle: Path,
    entry_point: str,
    trust: Path,
    target: str | None,
    inputs: tuple[str, ...],
    output: Path | None,
    expect: tuple[str, ...],
    rtol: float,
    atol: float,
) -> int:
    """Load a bundle as production would, and call an entry point once.

    \b
    aotc run digits-1.0.0.aotb predict --trust trust.toml \\
        --input image=@images.npy --output out.npz
    """
    from aotc.report.call_report import run_once
    from aotc.report.report_text import print_run

    outcome = run_once(
        bundle, entry_point, trust, target, inputs, output, expect, rtol=rtol, atol=atol
    )
    if outcome.findings:
        from aotc.cli.command_output import report_findings

        report_findings(out, outcome.findings, 8, **outcome.document)
        return 8
    out.result(outcome.document, lambda: print_run(outcome.document))
    return 0
