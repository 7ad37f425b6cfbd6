"""`aotc profiles`: shape profiles from observed traffic."""

from pathlib import Path

import click

from aotc.cli.command_output import FILE, HELP_OPTION, Output, command
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import printable, say

HELP_SECTION = "Build"


@click.group()
@HELP_OPTION
def profiles() -> None:
    """Choose shape profiles by observed traffic."""


log_option = click.option(
    "--traffic", "log", required=True, type=FILE, help="Traffic log (JSON lines, CSV, saved report)"
)
entry_option = click.option(
    "--entry", metavar="NAME", help="Entry point, if several have dimensions"
)


@profiles.command()
@click.argument("manifest", type=FILE, help="Build manifest (.toml)")
@log_option
@entry_option
@click.option(
    "--max",
    "most",
    default=8,
    show_default=True,
    type=click.IntRange(1, 256),
    metavar="N",
    help="Maximum number of profiles",
)
@target_option("Target to optimize for", default="the manifest's first")
@click.option("--write", is_flag=True, help="Write the profiles to the manifest")
@command
def suggest(
    out: Output,
    manifest: Path,
    log: Path,
    most: int,
    entry: str | None,
    target: str | None,
    write: bool,
) -> None:
    """Suggest profiles that serve observed traffic.

    Covers every call within the manifest's ranges, then minimizes the expected cost of a call, and
    compares the result with the current profiles. A call costs the product of its sizes. The log
    may be compressed with gzip. --write replaces no `profiles = "range"`.

    \b
    aotc profiles suggest manifests/digits.toml --traffic shapes.jsonl --max 8
    """
    from aotc.bundle.write.atomic_files import write_atomically
    from aotc.commands.profiles.profiles_text import (
        profiles_table,
        suggestion_document,
        suggestion_lines,
    )
    from aotc.commands.profiles.suggested_profiles import require_no_range
    from aotc.commands.profiles.suggested_profiles import suggest as find
    from aotc.config.toml_edit import with_value
    from aotc_runtime.formats.toml_source import render_path

    found = find(manifest, log, most=most, entry_point=entry, target=target)
    document = suggestion_document(found)
    if write:
        require_no_range(found)
        keys = (*profiles_table(found), "profiles")
        if text := with_value(manifest, keys, [dict(sizes) for sizes in found.profiles]):
            write_atomically(manifest, [text])
        document["written"] = render_path(keys)
    out.result(document, lambda: say(*suggestion_lines(found, document)))


@profiles.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@log_option
@entry_option
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Minimum share of calls that profiles serve",
)
@click.option(
    "--max-padding",
    type=click.FloatRange(min=0),
    metavar="RATIO",
    help="Maximum padding per requested element",
)
@target_option("Target to check", default="all")
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
    """Check that a bundle's profiles cover observed traffic.

    Shows the share of calls that the profiles serve, the padding that takes, and the calls that
    cost most. Checks digests, not signatures.

    \b
    aotc profiles check digits.aotb --traffic shapes.jsonl --min-coverage 0.999 --max-padding 0.15

    Exit code 9 if --min-coverage or --max-padding is not met.
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
    return out.verdict(document, lines, findings, BudgetExceededError.exit_code)
