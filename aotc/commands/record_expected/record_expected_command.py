"""`aotc record-expected`."""

from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.command_progress import progress
from aotc_runtime.base.rendering import say

HELP_SECTION = "Build"


@click.command("record-expected")
@click.argument("manifest", type=FILE, help="Build manifest (.toml)")
@click.option(
    "--python", required=True, type=FILE, help="Python interpreter that has the framework"
)
@click.option("--entry-point", metavar="NAME", help="Entry point, if several can be recorded")
@click.option(
    "-o", "--output", type=FILE, show_default="MANIFEST.expected.npz", help="Output file (.npz)"
)
@command
def record_expected(
    out: Output, manifest: Path, python: Path, entry_point: str | None, output: Path | None
) -> None:
    """Record results of a model's own framework.

    Runs the .pt2 file of an entry point with PyTorch, or its .onnx file with ONNX Runtime, on the
    recorded inputs of its fixtures at every profile. Enters the output as `expected` of the
    fixtures in the manifest. PyTorch may execute code of the file: record only models that you
    trust.

    \b
    aotc record-expected net.toml --python ~/torch/bin/python
    """
    from aotc.commands.record_expected.recording_process import enter_expected, record
    from aotc.report.array_files import write_npz

    output = output or manifest.with_suffix(".expected.npz")
    with progress(quiet=out.json) as on_stage:
        on_stage("running", 0, 0)
        recorded = record(manifest, entry_point, python, output)
    write_npz(output, recorded.arrays)
    entered = enter_expected(manifest, recorded.entry_point, output)
    document = {
        "output": str(output),
        "framework": recorded.framework,
        "arrays": sorted(recorded.arrays),
        "manifest": str(manifest) if entered else None,
    }

    def show() -> None:
        say(f"{output}  {recorded.framework}")
        if entered:
            say(f"{manifest}  {entered}")

    out.result(document, show)
