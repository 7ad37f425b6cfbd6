"""`aotc trust check`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc.cli.reference_options import BUNDLE_FILE
from aotc_runtime.base.rendering import say


@click.command(short_help="Say whether a policy accepts anything, now and later.")
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("bundle", required=False, type=BUNDLE_FILE)
@click.option(
    "--within",
    default=30,
    show_default=True,
    type=click.IntRange(min=0, max=36_500),
    metavar="DAYS",
    help="How far ahead keys are looked after.",
)
@command
def check(out: Output, policy: Path, bundle: Path | None, within: int) -> int:
    """Say whether a policy can accept anything, now and some days ahead, and this bundle.

    For CI: fails while there is time to add a key, and warns about keys that end before. With a
    bundle, says which rule of the policy would refuse it; processor and memory are not asked.

    \b
    aotc trust check trust.toml digits-1.0.0.aotb --within 60
    """
    from aotc.bundle.trust.trust_check import check_policy

    checked = check_policy(policy, bundle, within)
    if checked.findings:
        report_findings(out, checked.findings, checked.exit_code, **checked.document)
        return checked.exit_code
    out.result({**checked.document, "findings": []}, lambda: say(*checked.lines))
    return 0
