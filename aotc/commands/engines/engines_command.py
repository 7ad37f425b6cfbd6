"""`aotc engines`."""

import tempfile
from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.command_progress import progress
from aotc.cli.command_registry import beside, optional
from aotc.cli.target_option import target_option
from aotc_runtime.base.rendering import printable, say

HELP_SECTION = "Build"


@click.command()
@click.argument("program", metavar="FILE|MANIFEST", type=FILE, help="Model file, or build manifest")
@target_option("Target to compile for", default="the manifest's first")
@command
def engines(out: Output, program: Path, target: str | None) -> None:
    """List what each engine refuses of a program.

    Compiles the largest profile of each entry point with every installed engine. Lists operations
    that an engine refuses, with their number, share of the program's FLOPs, and source lines or
    layers; IREE may stop at the first. Measures calls of engines that refuse none briefly, where
    this host can run the target. For a model file, drafts a manifest as `aotc init` does.

    \b
    aotc engines digits.toml
    """
    from aotc.base.temporary_files import temporary_folder
    from aotc.capture.model_files.frontend_registry import suffixes
    from aotc.commands.engines.engines_survey import survey

    if program.suffix not in (known := (".toml", *suffixes())):
        expected = f"ends in '{program.suffix}', not in one of: {', '.join(known)}"
        raise click.BadParameter(expected, param_hint="FILE|MANIFEST")
    with (
        temporary_folder(Path(tempfile.gettempdir()), "aotc-engines-", "") as folder,
        progress(quiet=out.json) as on_stage,
    ):
        manifest = program
        if program.suffix != ".toml":
            manifest = folder / "draft.toml"
            beside("init", "write_draft")(program.absolute(), manifest)
        found = survey(manifest, target, optional("--tune").brief, on_stage)
    lines: list[str] = []
    for engine, executables in found.items():
        for label, each in executables.items():
            taken = f"{each['microseconds']:g} us a call" if "microseconds" in each else "compiles"
            told = "refused:" if "refused" in each else each.get("unmeasured", taken)
            lines += [f"{engine:12} {label}  {told}", *(f"  {r}" for r in each.get("refused", ()))]
    out.result({"engines": found}, lambda: say(*map(printable, lines)))
