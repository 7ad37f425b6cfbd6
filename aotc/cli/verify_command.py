"""`aotc verify`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command, report_findings
from aotc.cli.command_progress import passing_progress
from aotc.cli.completion_command import target_names
from aotc.cli.reference_options import PLACE, Place, fetching_options
from aotc_runtime.base.rendering import say


@click.command(short_help="Say whether a bundle may be loaded here, and if not, why.")
@click.argument("bundle", type=PLACE)
@click.option("--trust", required=True, type=FILE, help="The trust policy.")
@click.option(
    "--target",
    default="host",
    shell_complete=target_names,
    help="A target of the bundle; default: best for this host.",
)
@click.option("--channel", is_flag=True, help="The policy's channel has to name this bundle, too.")
@fetching_options
@command
def verify(
    out: Output,
    bundle: Place,
    trust: Path,
    target: str,
    channel: bool,
    full: bool,
    ca: Path | None,
) -> int:
    """Say whether a bundle may be loaded here, and if not, why.

    Checks signatures, every digest, the trust policy, the runtime, the processor and memory,
    without loading anything. --channel asks the policy's channel, perhaps over the network; loads
    never do.

    Of a bundle in a registry, weights are fetched and hashed with --full alone.

    \b
    aotc verify digits-1.0.0.aotb --trust trust.toml
    aotc verify digits-1.0.0.aotb --trust trust.toml --channel
    aotc verify oci://registry.example.org/models/digits:1.0.0 --trust trust.toml
    """
    from aotc_runtime.loader.verify_report import verify_report

    places = [bundle] if isinstance(bundle, Path) else []
    with passing_progress("hash", places, 1, quiet=out.json) as on_progress:
        report = verify_report(
            bundle, trust, target, full=full, ca=ca, channel=channel, on_progress=on_progress
        )
    if report.findings:
        report_findings(out, report.findings, report.exit_code, **report.document)
        return report.exit_code
    out.result({**report.document, "findings": []}, lambda: say(*report.lines))
    return 0
