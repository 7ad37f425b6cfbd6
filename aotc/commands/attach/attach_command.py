"""`aotc attach`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.reference_options import BUNDLE_FILE, PATH
from aotc_runtime.base.rendering import say

HELP_SECTION = "Sign and trust"


@click.command(short_help="Put into a bundle what Sigstore has signed about it.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.argument("file", type=PATH)
@command
def attach(out: Output, bundle: Path, file: Path) -> None:
    """Put a Sigstore bundle (.sigstore.json) about a bundle into it; its content stays as it is.

    Whether it counts, a policy with identities says: `aotc verify`.

    \b
    aotc attach digits-1.0.0.aotb digits.sigstore.json
    """
    from aotc.commands.attach.sigstore_bundle import attach_sigstore

    root = attach_sigstore(bundle, file)
    document = {"bundle": str(bundle), "file": str(file), "root_digest": root}
    out.result(document, lambda: say(f"attached {file}", f"about    {root}"))
