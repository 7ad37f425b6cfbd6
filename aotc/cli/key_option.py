"""`--key` and `--passphrase-file`: the key that a command signs with, in a file or elsewhere."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.base.errors import refusal
from aotc.cli.command_output import FILE, print_notes

if TYPE_CHECKING:
    from aotc.bundle.sign.signer import Signer

PASSPHRASE = "AOTC_KEY_PASSPHRASE"
"""The variable that holds a passphrase."""

PASSPHRASE_BYTES_MAX = 1023
"""The longest passphrase with which OpenSSL encrypts a key, in bytes."""

FILE_BYTES_MAX = 2**16
"""The size of a file whose first line is a passphrase; what follows is not looked at."""


def key_options(
    name: str = "key", *, required: bool = False, several: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the two options, as `name` and `passphrase_file`."""
    passphrase = click.option("--passphrase-file", type=FILE, help="File with the key's passphrase")
    key = click.option(
        "--key",
        name,
        required=required,
        multiple=several,
        metavar="FILE|URI",
        help=f"Private key to sign with{' (repeatable)' if several else ''}",
    )
    return lambda function: key(passphrase(function))


def signer_of(key: str, passphrase_file: Path | None) -> Signer:
    """Return the signer of a key file, or of a URI that an installed plug-in serves.

    Raises UsageError: AOTC-E006 to E008 for a file, AOTC-E016 to E019, E022 for a URI.
    """
    from aotc.bundle.sign.signer import load_signer
    from aotc.bundle.sign.signer_plugins import open_signer, scheme_of

    if scheme_of(key):
        return open_signer(key, _ask_for_plugin)
    path = Path(key)
    passphrase = given_passphrase(passphrase_file)
    if passphrase is None and sys.stdin.isatty() and _is_encrypted(path):
        passphrase = ask_passphrase(f"passphrase of {path}", confirm=False)
    signer = load_signer(path, passphrase)
    note_readable(path)
    return signer


def note_readable(key: Path) -> None:
    """Print a note if other users may read or change a key file.

    It is used all the same: mounted secrets often have such a mode, in containers with one user.
    """
    mode = key.stat().st_mode
    if stat.S_ISREG(mode) and mode & 0o077:
        shown = shlex.quote(str(key))
        print_notes(
            [f"{key} has mode {stat.S_IMODE(mode):04o}: others may use it; `chmod go= {shown}`"]
        )


def given_passphrase(file: Path | None) -> bytes | None:
    """Return the passphrase from a file's first line or the environment, or None.

    Raises UsageError (AOTC-E008) if the file cannot be read, or holds no usable passphrase.
    """
    if file is not None:
        from aotc.base.workers.confined_process import keep_secret
        from aotc_runtime.system.bundle_files import read_file

        keep_secret(file)
        try:
            line = read_file(file, FILE_BYTES_MAX).partition(b"\n")[0]
        except OSError as error:
            found, cause = error.strerror or str(error), "passphrase-file-is-not-readable"
            raise refusal("AOTC-E008", str(file), found, cause=cause) from error
        return _usable(line.removesuffix(b"\r"), str(file))
    value = os.environb.get(PASSPHRASE.encode())
    return _usable(value, PASSPHRASE) if value else None


def ask_passphrase(prompt: str, *, confirm: bool) -> bytes:
    """Return the passphrase as typed at the terminal."""
    answer: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True)
    return _usable(os.fsencode(answer), prompt)


def _is_encrypted(key: Path) -> bool:
    """Return whether a key file needs a passphrase; false if it cannot be read."""
    from aotc.bundle.sign.signer import is_encrypted, read_key_file

    try:
        return key.is_file() and is_encrypted(read_key_file(key))
    except OSError:
        return False


def _usable(passphrase: bytes, where: str) -> bytes:
    if not 0 < len(passphrase) <= PASSPHRASE_BYTES_MAX:
        found = f"{len(passphrase)} bytes" if passphrase else "nothing"
        raise refusal("AOTC-E008", where, found, most=PASSPHRASE_BYTES_MAX)
    return passphrase


def _ask_for_plugin(prompt: str) -> str | None:
    if not sys.stdin.isatty():
        return None
    try:
        answer: str = click.prompt(prompt, hide_input=True, err=True)
    except click.exceptions.Abort:
        # It passes through the plug-in that asks, which must not take it for its own failure.
        raise KeyboardInterrupt from None
    return answer
