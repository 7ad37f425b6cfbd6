"""A command of an abacus."""

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import BUNDLE_FILE
from aotc_runtime.base.rendering import say

HELP_SECTION = "Abacus"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help="Bundle file")
@command
def rods(out: Output, bundle: Path) -> None:
    """Show how many rods each target needs."""
    from aotc_runtime.system.bundle_files import open_bundle
    from aotc_runtime.verification.bundle_examination import read_unverified

    contents, _ = read_unverified(open_bundle(bundle))
    found = {
        name: int(manifest.target.options["rods"])
        for name, manifest in contents.manifests.items()
        if manifest.target.platform == "abacus"
    }
    out.result({"rods": found}, lambda: say(*(f"{name}: {n} rods" for name, n in found.items())))
