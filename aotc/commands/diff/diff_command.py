"""`aotc diff`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc.cli.reference_options import (
    PLACE,
    Place,
    fetching_options,
    looked,
    trust_option,
)
from aotc_runtime.base.rendering import say

HELP_SECTION = "Review"


@click.command(short_help="Say what changed between two bundles; gate on it.")
@click.argument("before", type=PLACE)
@click.argument("after", type=PLACE)
@trust_option("A policy that has to accept both bundles.")
@click.option(
    "--fail-on",
    "rules",
    multiple=True,
    metavar="RULE",
    help="any (the default), none, module, weights, flops>+5% …; may repeat.",
)
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    help="Lines of each module's text diff.",
)
@fetching_options
@command
def diff(
    out: Output,
    before: Place,
    after: Place,
    trust: Path | None,
    rules: tuple[str, ...],
    lines: int,
    full: bool,
    ca: Path | None,
) -> int:
    """Say what changed between two bundles, and end with 9 if that matters.

    Without --trust, digests are checked and signatures are not. Nothing is loaded.

    \b
    aotc diff released.aotb new.aotb --fail-on module,weights --fail-on "flops>+5%"
    """
    from datetime import UTC, datetime

    from aotc.base.errors import BudgetExceededError
    from aotc.bundle.read.bundle_review import review
    from aotc.commands.diff.bundle_diff import diff as compare
    from aotc.commands.diff.diff_rules import parse_rules, violations
    from aotc.commands.diff.diff_text import diff_document, diff_lines
    from aotc_runtime.verification.policy_reader import read_policy

    wanted = parse_rules(rules)
    policy, now = read_policy(trust) if trust else None, datetime.now(UTC)
    looking = partial(looked, out, policy=policy, full=full, ca=ca)
    with looking(before) as old, looking(after) as new:
        one, two = (review(each.source, policy, now, each.unread) for each in (old, new))
        found = compare(one, two, lines_max=lines)
    findings = tuple(violations(wanted, found))
    document = diff_document(found)
    document["weights_hashed"] = not (old.unread or new.unread)
    if not out.json:
        say(*diff_lines(found))
    if findings:
        report_findings(out, findings, BudgetExceededError.exit_code, **document)
        return BudgetExceededError.exit_code
    if out.json:
        out.document({"ok": True, **document, "findings": []})
    return 0
