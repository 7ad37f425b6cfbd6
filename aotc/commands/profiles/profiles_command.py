"""`aotc profiles`: suggest and check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aotc.cli.command_output import Output, command, note_ignored, report_findings
from aotc.cli.reference_options import BUNDLE_FILE, PATH
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import printable, say

HELP_SECTION = "Run and measure"


@click.group(short_help="Choose shape profiles from observed traffic.")
def profiles() -> None:
    """Choose shape profiles from observed traffic, and hold a bundle to it."""


def traffic_options[F: Callable[..., Any]](function: F) -> F:
    """The two options, as `log` and `entry`."""
    function = click.option("--entry", help="The entry point; needed if several have dimensions.")(
        function
    )
    return click.option(
        "--traffic",
        "log",
        required=True,
        type=PATH,
        help="JSON lines, CSV or a saved bundle.report(), also gzipped.",
    )(function)


@profiles.command()
@click.argument("manifest", type=PATH)
@traffic_options
@click.option(
    "--max",
    "most",
    default=8,
    show_default=True,
    type=click.IntRange(1, 256),
    help="The most profiles.",
)
@target_option("The target; the manifest's first by default.")
@click.option(
    "--cost",
    type=click.Choice(["analysis", "elements"]),
    default="analysis",
    show_default=True,
    help="XLA's cost analysis, or the product of the sizes.",
)
@command
def suggest(
    out: Output,
    manifest: Path,
    log: Path,
    most: int,
    entry: str | None,
    target: str | None,
    cost: str,
) -> None:
    """Find the profiles that serve observed traffic at the least cost.

    Covers every call within the manifest's ranges first, then minimizes the expected cost of a
    call, and compares the result with today's profiles.

    \b
    aotc profiles suggest manifests/digits.toml --traffic shapes.jsonl --max 8
    """
    from aotc.base.workers import worker_environment
    from aotc.commands.profiles.cost_probe import CostKind
    from aotc.commands.profiles.profiles_text import suggestion_document, suggestion_lines
    from aotc.commands.profiles.suggested_profiles import suggest as find

    if ignored := worker_environment.ignored():
        note_ignored(ignored)
    found = find(
        manifest,
        log,
        most=most,
        entry_point=entry,
        target=target,
        kind=CostKind(cost),
    )
    document = suggestion_document(found)
    out.result(document, lambda: say(*suggestion_lines(found, document)))


@profiles.command(short_help="Say how a bundle's profiles serve observed traffic.")
@click.argument("bundle", type=BUNDLE_FILE)
@traffic_options
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1),
    help="The part of all calls that a profile has to serve, such as 0.999.",
)
@click.option(
    "--max-padding",
    type=click.FloatRange(min=0),
    help="The most padding per element asked for, such as 0.15.",
)
@target_option("Only this target of the bundle.")
@command
def check(
    out: Output,
    bundle: Path,
    log: Path,
    min_coverage: float | None,
    max_padding: float | None,
    entry: str | None,
    target: str | None,
) -> int:
    """Say how the profiles of a bundle serve observed traffic, and fail if that is not enough.

    For CI. Checks digests but no signature, as `aotc inspect` does: nothing is loaded.

    \b
    aotc profiles check digits.aotb --traffic shapes.jsonl --min-coverage 0.999 --max-padding 0.15
    """
    from aotc.base.errors import BudgetExceededError
    from aotc.commands.profiles.profiles_text import check_document, check_lines
    from aotc.commands.profiles.traffic_check import check_bundle, gate

    checked, traffic = check_bundle(bundle, log, entry, target)
    findings = tuple(f for one in checked for f in gate(one, min_coverage, max_padding))
    document = {
        "bundle": str(bundle),
        "signatures_verified": False,
        "checked": [check_document(one, traffic) for one in checked],
    }
    lines = [printable(line) for one in checked for line in check_lines(one, traffic)]
    if not findings:
        out.result(document, lambda: say(*lines))
        return 0
    if not out.json:
        say(*lines)
    report_findings(out, findings, BudgetExceededError.exit_code, **document)
    return BudgetExceededError.exit_code
