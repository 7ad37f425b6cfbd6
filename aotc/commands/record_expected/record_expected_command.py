"""`aotc record-expected`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.command_progress import progress
from aotc.cli.reference_options import PATH
from aotc_runtime.base.rendering import say

HELP_SECTION = "Build"


@click.command("record-expected", short_help="Record what a model's own framework computes.")
@click.argument("manifest", type=PATH)
@click.option(
    "--python",
    required=True,
    type=PATH,
    help="The Python of an environment with the framework, which runs as a process of its own.",
)
@click.option("--entry-point", help="Which one; the only one that can be recorded.")
@click.option("-o", "--output", type=PATH, help=".npz file [default: MANIFEST's name.expected.npz]")
@command
def record_expected(
    out: Output, manifest: Path, python: Path, entry_point: str | None, output: Path | None
) -> None:
    """Record what a model's own framework computes, for a build to compare with.

    Runs an entry point's .onnx file with ONNX Runtime (or ONNX's reference evaluator), or its .pt2
    file with PyTorch, on the inputs of its fixtures, and enters the results as `expected` in the
    manifest. PyTorch may run code of the file: record only files that you trust.

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
