"""`aotc init`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.command_output import FILE, Output, command, print_notes, report_findings
from aotc.cli.command_progress import progress
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say, warn

if TYPE_CHECKING:
    from aotc.commands.init.drafting_process import Drafted

HELP_SECTION = "Build"


@click.command()
@click.argument(
    "function", metavar="FILE|FUNCTION", help="Model file, or function (package.module:name)"
)
@click.option("--example", metavar="FUNCTION", help="Function that returns example arguments")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=ARRAY",
    help="Shape and dtype of an input (repeatable)",
)
@click.option("--inputs", "inputs_file", type=FILE, help="Recorded inputs of the fixtures (.npz)")
@click.option(
    "--expected", "expected_file", type=FILE, help="Results of the framework for --inputs (.npz)"
)
@click.option(
    "--weights",
    multiple=True,
    metavar="NAME=FILE|FUNCTION",
    help="Weights file or function for a parameter",
)
@click.option(
    "--like",
    "likes",
    multiple=True,
    metavar="NAME=FUNCTION",
    help="Function that returns a value like this parameter",
)
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="Constant value of a parameter")
@click.option(
    "--dimension",
    "dimensions",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    show_default="1:64",
    help="Range of a dimension's sizes",
)
@click.option("-o", "--output", type=FILE, show_default="NAME.toml", help="Output file (.toml)")
@click.option("--name", metavar="NAME", show_default="the function's package", help="Bundle name")
@click.option(
    "--entry-point", metavar="NAME", show_default="the function's name", help="Entry point name"
)
@target_option("Target to compile for (repeatable)", several=True, default="cpu-x86-64-v3")
@click.option("--force", is_flag=True, help="Replace the output file if it exists")
@command
def init(
    out: Output,
    function: str,
    example: str | None,
    inputs: tuple[str, ...],
    inputs_file: Path | None,
    expected_file: Path | None,
    weights: tuple[str, ...],
    likes: tuple[str, ...],
    static: tuple[str, ...],
    dimensions: tuple[str, ...],
    output: Path | None,
    name: str | None,
    entry_point: str | None,
    targets: tuple[str, ...],
    force: bool,
) -> int:
    """Write a build manifest for a model.

    A function is imported from the manifest's directory. Each of its parameters takes the first
    description that it has:

    \b
    --weights params=model.safetensors    a weights file or checkpoint directory
    --weights params=model:init           a function that returns weights, or a file's structure
    --static temperature=1.0              a constant, in TOML
    --like cache=model:empty_cache        a pytree like a function's result
    --input 'image=float32[batch,64]'     an array with named axes
    --input 'image=[batch,64]'            names for the axes of an example
    --example model:example               a tuple, or a dict by parameter name
    image: Float32[Array, "batch 64"]     a jaxtyping annotation
    --inputs inputs.npz                   the arrays of a recorded call
    temperature=1.0                       the default in the function's signature

    The first axis is called batch if all arrays of the example or recorded call share it.

    Then traces the function with the manifest, as a build would. Where several engines are
    installed, the manifest lists them, and its first build takes the fastest.

    \b
    aotc init digits.model:predict --weights params=digits/params.safetensors \\
        --input 'image=float32[batch,64]' --static temperature=1.0

    \b
    aotc init net.pt2 --inputs inputs.npz --expected expected.npz

    Exit code 3 if tracing fails: edit the manifest, or replace it with --force.
    """
    from aotc.bundle.write.atomic_files import write_atomically
    from aotc.commands.init.drafting_process import check, draft_manifest
    from aotc.commands.init.init_request import read_recorded, read_request
    from aotc_runtime.base.errors import AotcError
    from aotc_runtime.schema.manifest_labels import label

    request = read_request(
        function,
        example,
        inputs=inputs,
        likes=likes,
        weights=weights,
        static=static,
        dimensions=dimensions,
    )
    request = replace(request, recorded=read_recorded(inputs_file, expected_file))

    def show(text: str) -> None:
        if out.verbose:
            warn(*(f"init | {line}" for line in text.splitlines()))

    with progress(quiet=out.json) as on_stage:
        drafted = draft_manifest(
            request,
            output=output,
            name=name,
            entry_point=entry_point,
            targets=targets,
            force=force,
            on_stage=lambda stage: on_stage(stage, 0, 0),
            on_output=show,
        )
        write_atomically(drafted.path, [drafted.text.encode()])
        written = {"path": str(drafted.path), "manifest": drafted.text}
        try:
            program, notes = check(drafted, lambda stage: on_stage(stage, 0, 0), show)
        except AotcError as error:
            refused = error
        else:
            profiles = [
                label(name, profile.sizes)
                for name, entry_point in program.entry_points.items()
                for profile in entry_point.profiles
            ]
            document = {**written, "profiles": profiles, "notes": list(notes)}
            is_recordable = function.endswith((".pt2", ".onnx"))
            records = is_recordable and inputs_file is not None and expected_file is None
            out.result(document, lambda: _print(drafted, len(profiles), notes, records))
            return 0
    report_findings(out, refused.findings, refused.exit_code, **written)
    if not out.json:
        warn(f"note: wrote a draft, {drafted.path}: edit it and build, or replace it with --force")
    return refused.exit_code


def _print(drafted: Drafted, profiles: int, notes: tuple[str, ...], records: bool) -> None:
    traced = f"{drafted.draft.entry_point} traces at {profiles} profile{'s' * (profiles != 1)}"
    step, option = ("record-expected", "--python PYTHON") if records else ("build", "--key KEY")
    next_step = f"next: aotc {step} {drafted.path} {option}"
    say(*drafted.text.splitlines(), "", f"# {drafted.path}: {traced}; {next_step}")
    print_notes(notes)
