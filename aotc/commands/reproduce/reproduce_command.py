"""`aotc reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.command_output import FILE, Output, command, print_notes
from aotc.cli.command_progress import progress
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP, refuse_both, verified_options
from aotc_runtime.base.rendering import say

if TYPE_CHECKING:
    from aotc.commands.reproduce.rebuilt_bundle import Reproduced

HELP_SECTION = "Inspect and verify"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.option(
    "--source",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Source directory",
)
@verified_options
@click.option(
    "--manifest", type=FILE, show_default="found in --source by digest", help="Build manifest"
)
@click.option("--tuning", type=FILE, help="Tuning file used by the build")
@command
def reproduce(
    out: Output,
    bundle: Path,
    source: Path,
    trust: Path | None,
    untrusted: bool,
    manifest: Path | None,
    tuning: Path | None,
) -> None:
    """Rebuild a bundle from source and compare it.

    Reads targets, package versions and digests of sources from the bundle's provenance, builds
    without a cache, and compares every byte. Differences are listed by stage, the likely cause
    first.

    \b
    aotc reproduce digits-1.0.0.aotb --source . --trust trust.toml

    Exit code 10 if sources, packages or results differ.
    """
    refuse_both(trust, untrusted)
    from aotc.commands.reproduce.rebuilt_bundle import reproduce as run
    from aotc_runtime.verification.policy_reader import read_policy

    with progress(quiet=out.json) as on_stage:
        done = run(
            bundle,
            source,
            policy=read_policy(trust) if trust else None,
            manifest=manifest,
            tuning=tuning,
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
        "notes": list(done.notes),
    }


def _print(bundle: Path, done: Reproduced) -> None:
    from aotc.report.report_text import count

    say(f"reproduced  {done.name} {done.version}  {bundle}")
    files, packages = len(done.recipe.files), len(done.recipe.packages)
    say(f"root        {done.root_digest}")
    say(f"from        {done.manifest} and {count(files, 'other file')}, all as recorded")
    say(f"with        {count(packages, 'package')} in the recorded versions")
    say(f"targets     {', '.join(done.targets)}")
    print_notes(done.notes)
