"""`aotc inspect`."""

from pathlib import Path

import click

from aotc.cli import reference_options
from aotc.cli.command_output import Output, command


@click.command()
@reference_options.bundle_argument
@reference_options.fetching_options
@command
def inspect(
    out: Output, bundle: reference_options.BundleReference, full: bool, ca: Path | None
) -> None:
    """Show the contents of a bundle.

    Shows targets, entry points with their inputs and outputs, profiles, sizes, memory and numerical
    differences from plain JAX; with --json also the evidence of each stage, every blob, and the
    provenance of each signature. Checks digests, not signatures: use `aotc verify` for those.

    \b
    aotc inspect digits-1.0.0.aotb
    """
    from datetime import UTC, datetime

    from aotc.bundle.read.bundle_review import review
    from aotc.report.inspect_report import bundle_report
    from aotc.report.report_text import print_bundle

    with reference_options.open_with_notes(out, bundle, None, full=full, ca=ca) as found:
        report = bundle_report(review(found.source, None, datetime.now(UTC), found.unread))
    report["weights_hashed"] = not found.unread
    out.result(report, lambda: print_bundle(report))
