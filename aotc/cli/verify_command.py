"""`aotc verify`."""

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, report_findings
from aotc.cli.command_progress import passing_progress
from aotc.cli.reference_options import (
    BUNDLE_REFERENCE,
    SOURCE_HELP,
    BundleReference,
    fetching_options,
    trust_option,
)
from aotc.cli.target_option import target_names
from aotc_runtime.base.rendering import say


@click.command()
@click.argument("bundle", type=BUNDLE_REFERENCE, help=SOURCE_HELP)
@trust_option(required=True)
@click.option(
    "--target",
    default="host",
    metavar="TARGET",
    shell_complete=target_names,
    show_default="best for this host",
    help="Target to verify",
)
@click.option("--channel", is_flag=True, help="Require that the policy's channel names the bundle")
@fetching_options
@command
def verify(
    out: Output,
    bundle: BundleReference,
    trust: Path,
    target: str,
    channel: bool,
    full: bool,
    ca: Path | None,
) -> int:
    """Verify that this host can load a bundle.

    Checks signatures, every digest, the trust policy, the runtime version, the processor and
    memory, without loading anything. Nothing but --channel and oci:// references uses the network.
    Weights in a registry are fetched and hashed only with --full.

    \b
    aotc verify digits-1.0.0.aotb --trust trust.toml
    aotc verify digits-1.0.0.aotb --trust trust.toml --channel
    aotc verify oci://registry.example.org/models/digits:1.0.0 --trust trust.toml

    Exit codes: 5 if the bundle is damaged or not trusted, 6 if the runtime version is incompatible,
    7 if the host is unsuitable, 11 if the registry cannot be used.
    """
    from aotc_runtime.loader.verify_report import verify_report

    places = [bundle] if isinstance(bundle, Path) else []
    with passing_progress("hash", places, 1, quiet=out.json) as on_progress:
        report = verify_report(
            bundle, trust, target, full=full, ca=ca, channel=channel, on_progress=on_progress
        )
    if report.findings:
        return report_findings(out, report.findings, report.exit_code, **report.document)
    out.result({**report.document, "findings": []}, lambda: say(*report.lines))
    return 0
