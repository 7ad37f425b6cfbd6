"""`aotc verify`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command, report_findings


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--trust", required=True, type=click.Path(path_type=Path), help="The trust policy.")
@click.option(
    "--target", default="host", help="A target of the bundle; default: best for this host."
)
@command
def verify(out: Output, bundle: Path, trust: Path, target: str) -> int:
    """Say whether a bundle may be loaded here, and if not, every reason why.

    Checks signatures, every digest, the trust policy, the runtime, the processor and memory,
    without loading anything.

    \b
    aotc verify digits-1.0.0.aotb --trust trust.toml
    """
    from aotc_runtime.verification.report import verify_report

    report = verify_report(bundle, trust, target)
    if report.findings:
        report_findings(out, report.findings, report.exit_code, **report.document)
        return report.exit_code
    out.result({**report.document, "findings": []}, lambda: print(*report.lines, sep="\n"))
    return 0
