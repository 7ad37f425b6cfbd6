"""`aotc init`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.command_output import Output, command, print_notes, report_findings
from aotc.cli.command_progress import progress
from aotc.cli.reference_options import PATH
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import say, warn

if TYPE_CHECKING:
    from aotc.commands.init.drafting_process import Drafted

HELP_SECTION = "Build"


@click.command(short_help="Write a first build manifest for a function.")
@click.argument("function")
@click.option("--example", help="package.module:function that returns the arguments of a call.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=ARRAY",
    help="An array, such as image=float32[batch,64]; or the axes of one of the example: x=[n,64].",
)
@click.option(
    "--inputs",
    "inputs_file",
    type=PATH,
    metavar="FILE.npz",
    help="Recorded inputs, by parameter, for the fixtures",
)
@click.option(
    "--expected",
    "expected_file",
    type=PATH,
    metavar="FILE.npz",
    help="Results of the model's framework for --inputs",
)
@click.option(
    "--weights",
    multiple=True,
    metavar="NAME=FILE|FUNCTION",
    help="Bind a parameter once: a weights file or folder, or a function that returns the values.",
)
@click.option(
    "--like", "likes", multiple=True, metavar="NAME=FUNCTION", help="A pytree that this returns."
)
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="Fix a parameter at build.")
@click.option(
    "--dimension",
    "dimensions",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="The sizes that calls may have; 1:64 by default.",
)
@click.option("-o", "--output", type=PATH, help="Default: NAME.toml.")
@click.option("--name", help="The bundle's name; default: the function's package.")
@click.option("--entry-point", help="Default: the function's name.")
@target_option("May repeat; default: cpu-x86-64-v3.", several=True)
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
) -> int:
    """Write a first build manifest for a function, and trace what it says.

    FUNCTION is package.module:function, looked up in the folder of the manifest, or a model file.
    Parameters are described by --example, by options, by jaxtyping annotations, or by the arrays of
    --inputs; those with a default may keep it. An existing file is never replaced.

    \b
    aotc init net.pt2 --inputs inputs.npz --expected expected.npz

    \b
    aotc init digits.model:predict --weights params=digits/params.safetensors \\
        --input 'image=float32[batch,64]' --static temperature=1.0
    """
    from aotc.commands.init.drafting_process import check, draft_manifest, write
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
            on_stage=lambda stage: on_stage(stage, 0, 0),
            on_output=show,
        )
        write(drafted)
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
            document = {**_written(drafted), "profiles": profiles, "notes": list(notes)}
            out.result(document, lambda: _print(drafted, len(profiles), notes))
            return 0
    report_findings(out, refused.findings, refused.exit_code, **_written(drafted))
    if not out.json:
        warn(f"note: wrote {drafted.path}; correct this or the program, and build")
    return refused.exit_code


def _written(drafted: Drafted) -> dict[str, object]:
    return {"path": str(drafted.path), "manifest": drafted.text}


def _print(drafted: Drafted, profiles: int, notes: tuple[str, ...]) -> None:
    traced = f"{drafted.draft.entry_point} traces at {profiles} profile{'s' * (profiles != 1)}"
    next_step = f"next: aotc build {drafted.path} --key KEY"
    say(*drafted.text.splitlines(), "", f"# {drafted.path}: {traced}; {next_step}")
    print_notes(notes)
