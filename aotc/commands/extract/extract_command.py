"""`aotc extract`."""

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.command_progress import passing_progress
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, output_options
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Ship"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@target_option("Target to keep (repeatable)", several=True, required=True)
@output_options()
@command
def extract(
    out: Output, bundle: Path, targets: tuple[str, ...], output: Path | None, layout: Path | None
) -> None:
    """Copy selected targets of a bundle.

    The root stays the same, so its signatures stay valid; it lists the targets that the copy does
    not have. Such a copy cannot be signed.

    \b
    aotc extract digits.aotb --target cpu-x86-64-v3 -o small.aotb
    """
    if (output is None) == (layout is None):
        raise click.UsageError("pass --output for a file, or --layout for a folder")
    from aotc.bundle.write.bundle_writer import Form
    from aotc.bundle.write.output_paths import require_distinct_output
    from aotc.commands.extract.extracted_bundle import extract as extract_targets
    from aotc.report.report_text import copy_lines, copy_report
    from aotc_runtime.system.streamed_bundle import open_streamed

    place = output or layout
    assert place is not None, "one of the two was given"
    require_distinct_output(place, bundle, lost="other targets")
    form = Form.LAYOUT if layout else Form.ARCHIVE
    with passing_progress("copy", [bundle], 2, quiet=out.json) as told:
        made = extract_targets(open_streamed(bundle, told), targets, place, form, told)
    report = copy_report(made)
    out.result(report, lambda: say(*copy_lines(report)))
