"""`aotc keygen`."""

import sys
from pathlib import Path

import click

from aotc.cli.command_output import FILE, Output, command
from aotc.cli.key_option import ask_passphrase, given_passphrase
from aotc_runtime.base.rendering import say


@click.command()
@click.argument("prefix", type=FILE, help="Path of the key files, without suffix")
@click.option(
    "--type",
    "key_type",
    type=click.Choice(["ed25519", "ecdsa-p256"]),
    default="ed25519",
    show_default=True,
    help="Key type",
)
@click.option("--plain", is_flag=True, help="Do not encrypt the private key")
@click.option("--passphrase-file", type=FILE, help="File with the new key's passphrase")
@command
def keygen(
    out: Output, prefix: Path, key_type: str, plain: bool, passphrase_file: Path | None
) -> None:
    """Generate a signing key pair.

    Writes PREFIX.key (PKCS#8 PEM, mode 0600) and PREFIX.pub. The private key is encrypted with the
    first line of --passphrase-file, with AOTC_KEY_PASSPHRASE, or with a passphrase that you type.
    Existing files are never overwritten.

    \b
    aotc keygen ci
    """
    from aotc.base.errors import refusal
    from aotc.bundle.sign.signer import KeyType, generate_key_pair

    if plain and passphrase_file:
        raise click.UsageError("--plain and --passphrase-file exclude each other")
    secret = None if plain else given_passphrase(passphrase_file)
    if secret is None and not plain:
        if not sys.stdin.isatty():
            raise refusal("AOTC-E009", "keygen", "")
        secret = ask_passphrase("passphrase", confirm=True)
    pair = generate_key_pair(prefix, secret, KeyType(key_type))
    document = {
        "private_key": str(pair.private),
        "public_key": str(pair.public),
        "key_id": pair.id,
        "type": key_type,
        "encrypted": secret is not None,
    }
    out.result(
        document,
        lambda: say(
            f"wrote {pair.private} (keep it secret) and {pair.public}", f"key id {pair.id}"
        ),
    )
