"""`aotc explain`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.reference_options import (
    BUNDLE_FILE,
    BUNDLE_HELP,
    profile_option,
    refuse_both,
    verified_options,
)
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Inspect and verify"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.argument("entry_point", help="Entry point to show")
@verified_options
@click.option(
    "--stage",
    type=click.Choice(["stablehlo", "hlo"]),
    default="stablehlo",
    show_default=True,
    help="Representation to show",
)
@profile_option
@target_option("Target to show", default="all")
@command
def explain(
    out: Output,
    bundle: Path,
    entry_point: str,
    trust: Path | None,
    untrusted: bool,
    stage: str,
    profile: str | None,
    target: str | None,
) -> None:
    """Show an entry point's StableHLO or HLO.

    `stablehlo` is the traced module, `hlo` the module that XLA optimized. Nothing is loaded, so
    targets of other machines are shown too. Signatures are checked only with --trust.

    \b
    aotc explain digits-1.0.0.aotb predict --trust trust.toml --profile batch=8 --stage hlo
    """
    refuse_both(trust, untrusted)
    from datetime import UTC, datetime

    from aotc.bundle.read.bundle_review import review
    from aotc.commands.explain.representations import Stage, explain_lines, explain_report
    from aotc.commands.explain.representations import explain as explain_entry_point
    from aotc.report.sizes_report import parse_profile
    from aotc_runtime.system.streamed_bundle import look_into
    from aotc_runtime.verification.policy_reader import read_policy

    sizes = parse_profile(profile) if profile is not None else None
    policy = read_policy(trust) if trust else None
    read = review(look_into(bundle), policy, datetime.now(UTC))
    explained = explain_entry_point(read, entry_point, Stage(stage), sizes, target)
    out.result(explain_report(read, explained), lambda: say(*explain_lines(explained)))
    if not out.json and not trust:
        print_notes(["signatures were not checked"])
