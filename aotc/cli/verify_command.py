"""`aotc verify`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli import reference_options
from aotc.cli.command_output import FILE, Output, command, report_findings
from aotc.cli.command_progress import passing_progress
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.target_option import target_names
from aotc_runtime.base.rendering import say


@click.command()
@reference_options.bundle_argument
@reference_options.trust_option(required=True)
@click.option(
    "--target",
    default="host",
    metavar="TARGET",
    shell_complete=target_names,
    show_default="best for this host",
    help="Target to verify",
)
@click.option("--channel", is_flag=True, help="Require that the policy's channel names the bundle")
@click.option("--summary", type=FILE, help="Write a signed summary if the bundle passes")
@key_options()
@reference_options.fetching_options
@command
def verify(
    out: Output,
    bundle: reference_options.BundleReference,
    trust: Path,
    target: str,
    channel: bool,
    summary: Path | None,
    key: str | None,
    passphrase_file: Path | None,
    full: bool,
    ca: Path | None,
) -> int:
    """Verify that this host can load a bundle.

    Checks signatures, every digest, the trust policy, the runtime version, the processor and
    memory, without loading anything. Nothing but --channel and oci:// references uses the network.
    Weights in a registry are fetched and hashed only with --full.

    --summary writes the verdict as signed SLSA and in-toto statements, if everything passes. It
    needs --key, --full for a reference, and --channel if the policy has one.

    \b
    aotc verify digits-1.0.0.aotb --trust trust.toml
    aotc verify digits-1.0.0.aotb --trust trust.toml --channel
    aotc verify digits-1.0.0.aotb --trust trust.toml --summary digits.vsa.json --key verifier.key
    aotc verify oci://registry.example.org/models/digits:1.0.0 --trust trust.toml

    Exit codes: 5 if the bundle is damaged or not trusted, 6 if the runtime version is incompatible,
    7 if the host is unsuitable, 11 if the registry cannot be used.
    """
    from aotc.bundle.write.output_paths import ENVELOPE, require_file_place
    from aotc_runtime.loader.verify_report import verify_report
    from aotc_runtime.verification.policy_reader import read_policy

    if bool(summary) != bool(key):
        raise click.UsageError("--summary and --key go together")
    if summary and not (full or isinstance(bundle, Path)):
        raise click.UsageError("--summary of a reference needs --full, which hashes its weights")
    if summary and not channel and read_policy(trust).channel is not None:
        raise click.UsageError("--summary needs --channel, since the policy has a channel")
    signer = signer_of(key, passphrase_file) if key else None
    if summary:
        require_file_place(summary, ENVELOPE)
    began = datetime.now(UTC)
    places = [bundle] if isinstance(bundle, Path) else []
    with passing_progress("hash", places, 1, quiet=out.json) as on_progress:
        report = verify_report(
            bundle, trust, target, full=full, ca=ca, channel=channel, on_progress=on_progress
        )
    if report.findings:
        return report_findings(out, report.findings, report.exit_code, **report.document)
    if summary and signer:
        from aotc.bundle.sign.verification_summary import verification_summary
        from aotc.bundle.write.atomic_files import write_atomically

        reference = "" if isinstance(bundle, Path) else report.document["bundle"]
        made = verification_summary(report.document, trust.name, reference, began, signer)
        write_atomically(summary, [made])
        report.document["summary"] = str(summary)
    out.result({**report.document, "findings": []}, lambda: say(*report.lines))
    return 0
