"""`aotc export`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from aotc.cli.command_output import DIR, Output, command
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, profile_option, trust_option
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say

HELP_SECTION = "Ship"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.argument("entry_point", required=False, help="Entry point; the only one by default")
@click.option(
    "--as",
    "form",
    type=click.Choice(["onnx", "openvino", "iree", "stablehlo"]),
    required=True,
    help="Format of the model",
)
@trust_option("Trust policy that must accept the bundle", required=True)
@profile_option
@click.option("--precision", metavar="NAME", help="Precision to export, such as float32")
@target_option("Target to export")
@click.option("-o", "--output", type=DIR, required=True, help="New folder for the model")
@command
def export(
    out: Output,
    bundle: Path,
    entry_point: str | None,
    form: str,
    trust: Path,
    profile: str | None,
    precision: str | None,
    target: str | None,
    output: Path,
) -> None:
    """Export an executable for C++, Rust, or Node.

    Writes a folder with the model and its weights, `signature.json` (names, shapes and types of
    inputs and outputs, digests), and `fixture.safetensors` (a call with its results). The model is
    called once on that fixture in the format's own runtime, and must match.

    The files are no bundle: nothing verifies them when they are loaded.

    \b
    aotc export digits.aotb predict --as onnx --profile batch=8 --trust trust.toml -o digits-onnx
    """
    from aotc.bundle.read.bundle_review import review
    from aotc.commands.export.exported_model import choose, export_lines, write
    from aotc.report.sizes_report import parse_profile
    from aotc_runtime.system.streamed_bundle import open_streamed
    from aotc_runtime.verification.policy_reader import read_policy

    sizes = parse_profile(profile) if profile is not None else None
    read = review(open_streamed(bundle), read_policy(trust), datetime.now(UTC))
    report = write(choose(read, entry_point, form, sizes, target, precision), output)
    out.result(report, lambda: say(*export_lines(report, output)))
