"""`aotc profiles check`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc.cli.completion_command import target_names
from aotc.cli.reference_options import BUNDLE_FILE
from aotc.commands.profiles.traffic_options import traffic_options
from aotc_runtime.base.rendering import say


@click.command(short_help="Say how a bundle's profiles serve observed traffic.")
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
@click.option("--target", shell_complete=target_names, help="Only this target of the bundle.")
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
    from aotc.commands.profiles.profiles_coverage import check_bundle
    from aotc.commands.profiles.profiles_text import check_document, check_lines
    from aotc.commands.profiles.traffic.traffic_check import gate
    from aotc_runtime.base.rendering import printable

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
