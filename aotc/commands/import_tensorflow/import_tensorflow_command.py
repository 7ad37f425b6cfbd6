"""`aotc import-tensorflow`."""

from pathlib import Path

import click

from aotc.cli.command_output import DIR, FILE, Output, command
from aotc.cli.command_progress import progress
from aotc_runtime.base.rendering import say

HELP_SECTION = "Build"


@click.command("import-tensorflow")
@click.argument("saved_model", type=DIR, help="SavedModel directory")
@click.option("--python", required=True, type=FILE, help="Python interpreter that has TensorFlow")
@click.option(
    "--signature", metavar="NAME", show_default="serving_default", help="Signature to export"
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME=SIZE,...",
    help="Sizes to export (repeatable)",
)
@click.option("--inputs", type=FILE, help="Inputs to run (.npz)")
@click.option("--expected", type=FILE, help="Write TensorFlow's results to this file (.npz)")
@click.option("-o", "--output", required=True, type=FILE, help="Output file (.tfhlo)")
@command
def import_tensorflow(
    out: Output,
    saved_model: Path,
    python: Path,
    signature: str | None,
    profiles: tuple[str, ...],
    inputs: Path | None,
    expected: Path | None,
    output: Path,
) -> None:
    """Export a SavedModel signature as a model file.

    TensorFlow runs in the environment of --python and may execute code of the SavedModel: import
    only models that you trust. Name the file as `source` in a build manifest. If the SavedModel has
    one signature, that is exported.

    \b
    aotc import-tensorflow saved_model --python ~/tensorflow/bin/python \\
        --profile batch=1 --profile batch=8 --output model.tfhlo
    """
    if (inputs is None) != (expected is None):
        raise click.UsageError("--inputs and --expected belong together")
    if output.suffix != ".tfhlo":
        raise click.BadParameter("a file that ends in .tfhlo", param_hint="--output")
    from aotc.commands.import_tensorflow.tensorflow_import import import_signature, write
    from aotc.report.sizes_report import parse_profile

    sizes = [parse_profile(text) for text in profiles] or [{}]
    with progress(quiet=out.json) as on_stage:
        on_stage("exporting", 0, 0)
        imported = import_signature(saved_model, python, signature, sizes, inputs)
    document = write(imported, output, expected)
    out.result(document, lambda: say(f"{output}  {document['digest']}"))
