"""`aotc extract`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.command_progress import passing_progress
from aotc.cli.reference_options import BUNDLE_FILE, PATH
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Gate and ship"


@click.command(short_help="Copy a bundle with some of its targets alone.")
@click.argument("bundle", type=BUNDLE_FILE)
@target_option("A target to keep; may repeat.", several=True, required=True)
@click.option("-o", "--output", type=PATH, help="The .aotb file to write.")
@click.option("--layout", type=PATH, help="Write an OCI layout folder here.")
@command
def extract(
    out: Output,
    bundle: Path,
    targets: tuple[str, ...],
    output: Path | None,
    layout: Path | None,
) -> None:
    """Copy a bundle with some of its targets alone; its root and its signatures stay the same.

    \b
    aotc extract digits.aotb --target cpu-x86-64-v3 -o small.aotb
    """
    if (output is None) == (layout is None):
        raise click.UsageError("pass --output for a file, or --layout for a folder")
    from aotc.bundle.write.bundle_writer import Form
    from aotc.bundle.write.output_paths import require_other_place
    from aotc.commands.extract.extracted_bundle import extract as extract_targets
    from aotc.report.report_text import copy_lines, copy_report
    from aotc_runtime.system.streamed_bundle import look_into

    place = output or layout
    assert place is not None, "one of the two was given"
    require_other_place(place, bundle, lost="other targets")
    form = Form.LAYOUT if layout else Form.ARCHIVE
    with passing_progress("copy", [bundle], 2, quiet=out.json) as told:
        made = extract_targets(look_into(bundle, told), targets, place, form, told)
    report = copy_report(made)
    out.result(report, lambda: say(*copy_lines(report)))
