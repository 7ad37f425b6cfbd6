"""`aotc inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command


@click.command(short_help="Show targets, entry points, profiles, sizes and parity.")
@click.argument("bundle", type=click.Path(path_type=Path))
@command
def inspect(out: Output, bundle: Path) -> None:
    """Show what is in a bundle: targets, entry points, profiles, sizes, memory and parity.

    Checks digests but no signature: it says who claims to have signed, not whether they did.

    \b
    aotc inspect digits-1.0.0.aotb
    """
    from datetime import UTC, datetime

    from aotc.report.inspect import bundle_report
    from aotc.report.text import print_bundle
    from aotc.review.reading import review
    from aotc_runtime.system.passing import look_into

    report = bundle_report(review(look_into(bundle), None, datetime.now(UTC)))
    out.result(report, lambda: print_bundle(report))
