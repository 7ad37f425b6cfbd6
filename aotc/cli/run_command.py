"""`aotc run`."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aotc.cli.command_output import FILE, Output, command, report_findings
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, trust_option
from aotc.cli.target_option import target_option


def _tolerance(context: click.Context, option: click.Parameter, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise click.BadParameter(f"{value} is not a finite number of at least 0.", context, option)
    return value


def _tolerance_option[F: Callable[..., Any]](kind: str, default: float) -> Callable[[F], F]:
    return click.option(
        f"--{kind[0].lower()}tol",
        default=default,
        show_default=True,
        callback=_tolerance,
        metavar="NUMBER",
        help=f"{kind} tolerance for --expect",
    )


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.argument("entry_point", help="Entry point to call")
@trust_option(required=True)
@target_option("Target to load", default="best for this host")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=ARRAY|@FILE",
    help="Input array: file or shape (repeatable)",
)
@click.option("--output", type=FILE, help="Write results to this file (.npz)")
@click.option(
    "--expect",
    multiple=True,
    metavar="NAME=@FILE|@FILE",
    help="Expected result to compare with (repeatable)",
)
@_tolerance_option("Relative", 1e-5)
@_tolerance_option("Absolute", 1e-6)
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
    """Load a bundle and call an entry point.

    Loads the bundle like a server does. Values of --input, with names as `aotc inspect` shows them:

    \b
    image=@x.npy         array of a .npy file
    @all.npz             all arrays of an .npz file, by name
    image=8x64xf32       zeros of this shape and dtype
    image=8x64xf32=1.5   this number at every position
    step=i32=3           a scalar

    Dtypes may be written in full or as in HLO (f32, bf16, s32, pred, ...); nothing is cast.

    \b
    aotc run digits-1.0.0.aotb predict --trust trust.toml \\
        --input image=@images.npy --output out.npz

    Exit codes: 8 if a result differs from --expect; 5, 6 or 7 if the bundle does not load.
    """
    from aotc.report.call_report import run_once
    from aotc.report.report_text import print_run

    document, findings = run_once(
        bundle, entry_point, trust, target, inputs, output, expect, rtol=rtol, atol=atol
    )
    if findings:
        return report_findings(out, findings, 8, **document)
    out.result(document, lambda: print_run(document))
    return 0
