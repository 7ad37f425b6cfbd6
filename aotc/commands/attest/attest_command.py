"""`aotc attest`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.command_output import Output, command
from aotc.cli.key_option import key_options, signer_of
from aotc.cli.reference_options import BUNDLE_FILE
from aotc_runtime.base.rendering import say

HELP_SECTION = "Sign and trust"


@click.command(short_help="Sign a bundle's files for other tools.")
@click.argument("bundle", type=BUNDLE_FILE)
@click.option(
    "--openssf",
    is_flag=True,
    required=True,
    help="As OpenSSF Model Signing: a model.sig that `model_signing verify key` accepts.",
)
@key_options(required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write; default: model.sig beside the bundle.",
)
@command
def attest(
    out: Output,
    bundle: Path,
    openssf: bool,
    key: str,
    passphrase_file: Path | None,
    output: Path | None,
) -> None:
    """Sign a bundle's files for other tools; the bundle stays as it is.

    Sign last: `aotc sign` adds files, for which the list would have to be made again.

    \b
    aotc attest digits --openssf --key release.key
    """
    from aotc.commands.attest.model_signature import default_place, write_model_signature

    del openssf  # the only kind there is, and one has to be named
    place = output or default_place(bundle)
    signer = signer_of(key, passphrase_file)
    files = write_model_signature(bundle, place, signer)
    document = {
        "bundle": str(bundle),
        "output": str(place),
        "key_id": signer.key_id,
        "files": files,
    }
    lines = f"signed {files} files", f"with key {signer.key_id}", f"wrote {place}"
    out.result(document, lambda: say(*lines))
