"""`--key` and `--passphrase-file`: the key that a command signs with, in a file or elsewhere."""

from __future__ import annotations

import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import passphrase
from aotc.cli.command_output import print_notes

if TYPE_CHECKING:
    from aotc.bundle.sign.signer import Signer


def key_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the two options, as `key` and `passphrase_file`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--passphrase-file",
            type=click.Path(path_type=Path),
            help="First line: the key's passphrase.",
        )(function)
        return click.option(
            "--key",
            required=required,
            metavar="FILE|URI",
            help="Sign with this private key; or with one elsewhere, such as pkcs11:….",
        )(function)

    return decorate


def signer_of(key: str, passphrase_file: Path | None) -> Signer:
    """The signer of a key file, or of a URI that an installed plug-in serves.

    Raises UsageError: AOTC-E006 to E008 for a file, AOTC-E016 to E019, E022 for a URI.
    """
    from aotc.bundle.sign.signer import load_signer
    from aotc.bundle.sign.signer_plugins import open_signer, scheme_of

    if scheme_of(key):
        return open_signer(key, _asked)
    path = Path(key)
    signer = load_signer(path, passphrase.for_key(path, passphrase_file))
    note_readable(path)
    return signer


def note_readable(key: Path) -> None:
    """Say so if others may read or change a key file. It is used all the same: mounts of secrets
    often have such a mode, in containers that nobody else is in.
    """
    mode = key.stat().st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        shown = shlex.quote(str(key))
        print_notes(
            [f"{key} has mode {stat.S_IMODE(mode):04o}: others may use it; `chmod go= {shown}`"]
        )


def _asked(prompt: str) -> str | None:
    if not sys.stdin.isatty():
        return None
    try:
        answer: str = click.prompt(prompt, hide_input=True, err=True)
    except click.exceptions.Abort:
        # It passes through the plug-in that asks, which must not take it for its own failure.
        raise KeyboardInterrupt from None
    return answer
