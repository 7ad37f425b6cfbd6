"""`aotc profiles suggest`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command, note_ignored
from aotc.cli.completion_command import target_names
from aotc.commands.profiles.traffic_options import traffic_options
from aotc_runtime.base.rendering import say


@click.command()
@click.argument("manifest", type=click.Path(path_type=Path))
@traffic_options
@click.option(
    "--max",
    "most",
    default=8,
    show_default=True,
    type=click.IntRange(1, 256),
    help="The most profiles.",
)
@click.option(
    "--target", shell_complete=target_names, help="The target; the manifest's first by default."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    help="What the executables of all profiles may take.",
)
@click.option("--measure", is_flag=True, help="Time calls on this host instead of counting work.")
@click.option(
    "--cost",
    type=click.Choice(["analysis", "elements"]),
    default="analysis",
    show_default=True,
    help="XLA's cost analysis, or the product of the sizes.",
)
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw it into this .svg or .png file."
)
@click.option("--write", is_flag=True, help="Put the profiles into the manifest.")
@command
def suggest(
    out: Output,
    manifest: Path,
    log: Path,
    most: int,
    entry: str | None,
    target: str | None,
    max_bytes: int | None,
    measure: bool,
    cost: str,
    plot: Path | None,
    write: bool,
) -> None:
    """Find the profiles that serve observed traffic at the least cost.

    Covers every call within the manifest's ranges first, then minimizes the expected cost of a
    call, and compares the result with today's profiles.

    \b
    aotc profiles suggest manifests/digits.toml --traffic shapes.jsonl --max 8
    """
    if measure and cost == "elements":
        raise click.UsageError("--measure and --cost elements exclude each other")
    if max_bytes and cost == "elements":
        raise click.UsageError("--max-bytes needs compiled probes, not --cost elements")
    from aotc.base.workers import worker_environment
    from aotc.bundle.write.atomic_files import prepared
    from aotc.commands.profiles.cost_probe import CostKind
    from aotc.commands.profiles.profiles_edit import write_profiles
    from aotc.commands.profiles.profiles_text import print_suggestion, suggestion_document
    from aotc.commands.profiles.suggested_profiles import suggest as find
    from aotc.commands.profiles.svg_drawing import drawn, require_drawable
    from aotc.commands.profiles.traffic_picture import picture

    if plot:
        require_drawable(plot)
    if ignored := worker_environment.ignored():
        note_ignored(ignored)
    found = find(
        manifest,
        log,
        most=most,
        entry_point=entry,
        target=target,
        bytes_max=max_bytes,
        kind=CostKind.MEASURED if measure else CostKind(cost),
    )
    document = suggestion_document(found)
    with prepared({plot: drawn(picture(found), plot)} if plot else {}) as put_in_place:
        if write:
            document["written"] = write_profiles(found, put_in_place)
        else:
            put_in_place()

    def text() -> None:
        print_suggestion(found)
        if plot:
            say(f"drew {plot}")
        if write:
            say(f"wrote {document['written']} in {manifest}")

    out.result(document, text)
