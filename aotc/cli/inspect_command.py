"""`aotc inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import PLACE, Place, fetching_options, looked


@click.command(short_help="Show targets, entry points, profiles, sizes and parity.")
@click.argument("bundle", type=PLACE)
@fetching_options
@command
def inspect(out: Output, bundle: Place, full: bool, ca: Path | None) -> None:
    """Show what is in a bundle: targets, entry points, profiles, sizes, memory and parity.

    Checks digests but no signature: it says who claims to have signed, not whether they did.

    \b
    aotc inspect digits-1.0.0.aotb
    """
    from datetime import UTC, datetime

    from aotc.bundle.read.bundle_review import review
    from aotc.report.inspect_report import bundle_report
    from aotc.report.report_text import print_bundle

    with looked(out, bundle, None, full=full, ca=ca) as found:
        report = bundle_report(review(found.source, None, datetime.now(UTC), found.unread))
    report["weights_hashed"] = not found.unread
    out.result(report, lambda: print_bundle(report))
