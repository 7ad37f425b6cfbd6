"""`aotc sign`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli import passphrase
from aotc.cli.common import Output, command


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--key", required=True, type=click.Path(path_type=Path), help="The private key.")
@click.option(
    "--passphrase-file", type=click.Path(path_type=Path), help="First line: the key's passphrase."
)
@command
def sign(out: Output, bundle: Path, key: Path, passphrase_file: Path | None) -> None:
    """Add a signature to a bundle; its content stays as it is.

    \b
    aotc sign digits-1.0.0.aotb --key release.key
    """
    from aotc.build.endorse import endorse
    from aotc.signing.signer import load_signer

    signer = load_signer(key, passphrase.for_key(key, passphrase_file))
    attestation = endorse(bundle, signer)
    document = {
        "bundle": str(bundle),
        "root_digest": attestation.root_digest,
        "key_id": attestation.key_id,
    }
    out.result(
        document, lambda: print(f"signed {attestation.root_digest}\nwith key {attestation.key_id}")
    )
