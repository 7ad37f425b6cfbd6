"""`aotc reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_output import Output, command, print_notes
from aotc.cli.command_progress import progress
from aotc.cli.reference_options import BUNDLE_FILE, PATH, refuse_both, verified_options
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc.commands.reproduce.rebuilt_bundle import Reproduced

HELP_SECTION = "Build"


@click.command(short_help="Build a bundle again from its sources, and compare.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.option(
    "--source",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder with the sources.",
)
@verified_options
@click.option("--manifest", type=PATH, help="The build manifest; default: found below --source.")
@click.option("--tuning", type=PATH, help="What a tuned build was made with.")
@click.option(
    "--install",
    is_flag=True,
    help="Make an environment with the recorded packages where others are here.",
)
@command
def reproduce(
    out: Output,
    bundle: Path,
    source: Path,
    trust: Path | None,
    untrusted: bool,
    manifest: Path | None,
    tuning: Path | None,
    install: bool,
) -> None:
    """Build a bundle again from its sources, and compare it byte for byte.

    Takes targets, packages and digests of sources from the bundle's provenance, builds in a clean
    process without a cache, and names what differs first.

    \b
    aotc reproduce digits-1.0.0.aotb --source . --trust trust.toml
    """
    refuse_both(trust, untrusted)
    from aotc.commands.reproduce.rebuilt_bundle import Install
    from aotc.commands.reproduce.rebuilt_bundle import reproduce as run
    from aotc_runtime.verification.policy_reader import read_policy

    installing = Install.UNTRUSTED if untrusted else Install.TRUSTED
    with progress(quiet=out.json) as on_stage:
        done = run(
            bundle,
            source,
            policy=read_policy(trust) if trust else None,
            manifest=manifest,
            tuning=tuning,
            install=installing if install else Install.NOTHING,
            on_stage=lambda stage: on_stage(stage, 0, 0),
        )
    out.result(_document(bundle, done), lambda: _print(bundle, done))


def _document(bundle: Path, done: Reproduced) -> dict[str, Any]:
    revision = done.recipe.revision
    return {
        "bundle": str(bundle),
        "name": done.name,
        "version": done.version,
        "root_digest": done.root_digest,
        "targets": list(done.targets),
        "signers": list(done.recipe.signers),
        "manifest": str(done.manifest),
        "files": done.recipe.files,
        "packages": done.recipe.packages,
        "git_commit": revision.gitCommit if revision else None,
        "dirty": revision.dirty if revision else None,
        "installed": done.installed,
        "notes": list(done.notes),
    }


def _print(bundle: Path, done: Reproduced) -> None:
    from aotc.report.report_text import count

    say(f"reproduced  {done.name} {done.version}  {bundle}")
    files, packages = len(done.recipe.files), len(done.recipe.packages)
    where = "an environment made for it" if done.installed else "this environment"
    say(f"root        {done.root_digest}")
    say(f"from        {done.manifest} and {count(files, 'other file')}, all as recorded")
    say(f"with        {count(packages, 'package')} in the recorded versions, in {where}")
    say(f"targets     {', '.join(done.targets)}")
    print_notes(done.notes)
