"""`aotc merge`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.command_progress import passing_progress
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, output_options, trust_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Ship"


@click.command()
@click.argument("bundles", nargs=-1, required=True, type=BUNDLE_FILE, help=BUNDLE_HELP)
@output_options()
@trust_option("Trust policy that must accept every input")
@click.option("--unsigned-inputs", is_flag=True, help="Accept unsigned inputs")
@key_options(required=False)
@command
def merge(
    out: Output,
    bundles: tuple[Path, ...],
    output: Path | None,
    layout: Path | None,
    trust: Path | None,
    unsigned_inputs: bool,
    key: str | None,
    passphrase_file: Path | None,
) -> None:
    """Merge bundles that were built for different targets.

    The bundles must be of one program: the same name, version, weights, modules and interface. Use
    this if no single machine can compile for all targets. The result is a new bundle, identical to
    one built for all targets at once; sign it with --key.

    \b
    aotc merge intel.aotb amd.aotb -o digits.aotb --trust trust.toml --key release.key
    """
    if (output is None) == (layout is None):
        raise click.UsageError("pass --output for a file, or --layout for a folder")
    if (trust is None) != unsigned_inputs:
        raise click.UsageError(
            "pass --trust for inputs that this policy has to accept, or --unsigned-inputs to take "
            "them as they are"
        )
    from aotc.bundle.write.bundle_writer import Form
    from aotc.bundle.write.output_paths import require_distinct_output
    from aotc.commands.merge.merged_bundle import merge_bundles, merge_lines, merge_report
    from aotc_runtime.verification.policy_reader import read_policy

    place = output or layout
    assert place is not None, "one of the two was given"
    for bundle in bundles:
        require_distinct_output(place, bundle, lost="root and signatures")
    policy = read_policy(trust) if trust else None
    signer = signer_of(key, passphrase_file) if key else None
    form, now = Form.LAYOUT if layout else Form.ARCHIVE, datetime.now(UTC)
    with passing_progress("copy", bundles, 2, quiet=out.json) as told:
        merged = merge_bundles(bundles, place, form, policy, signer, now, told)
    report = merge_report(merged)
    out.result(report, lambda: say(*merge_lines(report)))
    unsigned = f"the bundle is unsigned and will not load; sign it: aotc sign {place} --key KEY"
    if not out.json:
        print_notes([*report["notes"], *([] if merged.attestation else [unsigned])])
