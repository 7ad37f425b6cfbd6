"""Options of `aotc channel` that name keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from aotc.cli.key_option import signer_of
from aotc.errors import refusal
from aotc.signing.signer import Signer
from aotc.signing.trust_file import read_public_key


def role_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options for the public keys of each role, and their thresholds."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, what in (
            ("online", "A machine's, for snapshot and timestamp (.pub)."),
            ("targets", "Of who says what is deployed (.pub); may be given several times."),
            ("root", "Of who decides about these keys (.pub); may be given several times."),
        ):
            function = click.option(
                f"--{name}",
                f"{name}_keys",
                multiple=True,
                required=required,
                type=click.Path(path_type=Path),
                help=what,
            )(function)
        for role in ("targets", "root"):
            function = click.option(
                f"--{role}-threshold",
                default=1,
                show_default=True,
                type=click.IntRange(min=1),
                help=f"Keys of --{role} that have to sign.",
            )(function)
        return signing_options(function)

    return decorate


def signing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--key`, which may be repeated, and `--passphrase-file`."""
    function = click.option(
        "--passphrase-file",
        type=click.Path(path_type=Path),
        help="First line: the passphrase of all keys given here.",
    )(function)
    return click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="FILE|URI",
        help="Sign with this private key; may be given several times.",
    )(function)


def public_keys(files: Sequence[Path], option: str) -> dict[str, str]:
    """PEM texts by the ids of keys. Raises UsageError: AOTC-E006, E028 for one that stands twice;
    TrustError (AOTC-E310).
    """
    found: dict[str, str] = {}
    for file in files:
        pem, key = read_public_key(file)
        if key.id in found:
            raise refusal("AOTC-E028", option, f"{file}, a key that was given before")
        found[key.id] = pem
    return found


def signers_of(keys: Sequence[str], passphrase_file: Path | None) -> list[Signer]:
    """What signs, a key each. Raises what `signer_of` raises."""
    return [signer_of(key, passphrase_file) for key in keys]
