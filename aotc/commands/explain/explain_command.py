"""`aotc explain`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.completion_command import target_option
from aotc.cli.reference_options import BUNDLE_FILE, refuse_both, verified_options
from aotc_runtime.base.rendering import say

HELP_SECTION = "Review"


@click.command(short_help="Show an entry point as StableHLO or HLO.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.argument("entry_point")
@verified_options
@click.option(
    "--stage",
    type=click.Choice(["stablehlo", "hlo"]),
    default="stablehlo",
    show_default=True,
    help="As traced, or as XLA optimized it.",
)
@click.option("--profile", help="Only profiles with these sizes: batch=8 or batch=1,seq=16.")
@target_option("Only this target; default: all of the bundle.")
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
    """Show an entry point as StableHLO or as optimized HLO.

    Each with the profile and the targets it belongs to. Nothing of the bundle is loaded, so that
    targets of other machines are shown as well. Without --trust, digests are checked and
    signatures are not.

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
