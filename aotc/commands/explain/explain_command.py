"""`aotc explain`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.reference_options import BUNDLE_FILE, profile_option, refuse_both, verified_options
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Inspect and verify"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help="Bundle file or directory, or an error code")
@click.argument("entry_point", required=False, help="Entry point to show")
@verified_options
@profile_option
@target_option("Target to show", default="all")
@command
def explain(
    out: Output,
    bundle: Path,
    entry_point: str | None,
    trust: Path | None,
    untrusted: bool,
    profile: str | None,
    target: str | None,
) -> None:
    """Show an entry point's StableHLO.

    That is the module as it was traced. Nothing is loaded, so targets of other machines are shown
    too. Signatures are checked only with --trust.

    With an error code in place of a bundle, explains the error.

    \b
    aotc explain digits-1.0.0.aotb predict --trust trust.toml --profile batch=8
    aotc explain AOTC-E806
    """
    refuse_both(trust, untrusted)
    if entry_point is None:
        _explain_code(out, str(bundle))
        return
    from aotc.bundle.read.bundle_review import review
    from aotc.commands.explain.representations import explain as explain_entry_point
    from aotc.commands.explain.representations import explain_lines, explain_report
    from aotc.report.sizes_report import parse_profile
    from aotc_runtime.system.streamed_bundle import open_streamed
    from aotc_runtime.verification.policy_reader import read_policy

    sizes = parse_profile(profile) if profile is not None else None
    policy = read_policy(trust) if trust else None
    read = review(open_streamed(bundle), policy, datetime.now(UTC))
    explained = explain_entry_point(read, entry_point, sizes, target)
    out.result(explain_report(read, explained), lambda: say(*explain_lines(explained)))
    if not out.json and not trust:
        print_notes(["signatures were not checked"])


def _explain_code(out: Output, code: str) -> None:
    """Explain an error code. Raises click.UsageError for any other text, as for a bundle alone."""
    from aotc.commands.explain.code_explanation import code_document, code_lines, code_named

    known = code_named(code)
    if known is None:
        raise click.UsageError("missing argument 'ENTRY_POINT'", click.get_current_context())
    out.result(code_document(known), lambda: say(*code_lines(known)))
