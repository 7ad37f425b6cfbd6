"""`aotc import-tensorflow`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.command_progress import progress
from aotc.cli.reference_options import PATH
from aotc_runtime.base.rendering import say

HELP_SECTION = "Build"


@click.command("import-tensorflow", short_help="Make a model file of a SavedModel's signature.")
@click.argument("saved_model", type=PATH)
@click.option(
    "--python",
    required=True,
    type=PATH,
    help="The Python of an environment with TensorFlow, which runs as a process of its own.",
)
@click.option("--signature", help="Which signature; the only one, or serving_default.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME=SIZE,...",
    help="Sizes to export for, such as batch=8; may repeat.",
)
@click.option("--inputs", type=PATH, help="An .npz file of inputs to run.")
@click.option("--expected", type=PATH, help="Where TensorFlow's results for these inputs go.")
@click.option("-o", "--output", required=True, type=PATH, help=".tfhlo file.")
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
    """Have TensorFlow export a signature of a SavedModel, for `source` in a build manifest.

    TensorFlow loads the SavedModel, which may run what is in it: import those that you trust.

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
