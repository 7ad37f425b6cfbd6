"""`aotc attach`."""

from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.reference_options import BUNDLE_FILE, BUNDLE_HELP
from aotc_runtime.base.rendering import say

HELP_SECTION = "Keys and trust"


@click.command()
@click.argument("bundle", type=BUNDLE_FILE, help=BUNDLE_HELP)
@click.argument("file", type=FILE, help="Sigstore bundle (.sigstore.json)")
@command
def attach(out: Output, bundle: Path, file: Path) -> None:
    """Attach a Sigstore signature to a bundle.

    The Sigstore bundle must hold SLSA provenance of this bundle. The signed content does not
    change. The signature counts if a trust policy lists its identity or key.

    \b
    aotc attach digits-1.0.0.aotb digits.sigstore.json
    """
    from aotc.commands.attach.sigstore_bundle import attach_sigstore

    root = attach_sigstore(bundle, file)
    document = {"bundle": str(bundle), "file": str(file), "root_digest": root}
    out.result(document, lambda: say(f"attached {file}", f"about    {root}"))
