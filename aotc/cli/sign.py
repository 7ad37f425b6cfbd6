"""`aotc sign`."""

from __future__ import annotations

from pathlib import Path

import click

from aotc.cli.common import Output, command
from aotc.cli.key_option import key_options, signer_of


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@key_options(required=True)
@command
def sign(out: Output, bundle: Path, key: str, passphrase_file: Path | None) -> None:
    """Add a signature to a bundle; its content stays as it is.

    \b
    aotc sign digits-1.0.0.aotb --key release.key
    aotc sign digits-1.0.0.aotb --key "pkcs11:token=ci;object=release?module-path=/usr/lib/x.so"
    """
    from aotc.bundles.endorse import endorse

    made = endorse(bundle, signer_of(key, passphrase_file))
    attestation = made.attestation
    document = {
        "bundle": str(bundle),
        "root_digest": attestation.root_digest,
        "key_id": attestation.key_id,
        "added": made.added,
    }
    root, key_id = attestation.root_digest, attestation.key_id
    done = f"signed {root}" if made.added else f"nothing added to {root}: signed before"
    out.result(document, lambda: print(f"{done}\nwith key {key_id}"))
