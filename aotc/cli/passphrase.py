"""Where a key's passphrase comes from: a file, the environment, or a prompt."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from aotc_runtime.base.errors import AotcError

VARIABLE = "AOTC_KEY_PASSPHRASE"

BYTES_MAX = 1023
"""What OpenSSL encrypts a key with."""


FILE_BYTES_MAX = 2**16
"""The size of a file whose first line is a passphrase; what follows is not looked at."""


def given(file: Path | None) -> bytes | None:
    """The passphrase from a file (its first line) or the environment; None if neither is set.

    Raises UsageError (AOTC-E008) if the file cannot be read, or holds no usable passphrase.
    """
    if file is not None:
        from aotc.base.workers.confined_process import keep_secret
        from aotc_runtime.system.bundle_files import read_file

        keep_secret(file)
        try:
            line = read_file(file, FILE_BYTES_MAX).partition(b"\n")[0]
        except OSError as error:
            raise _unusable(str(file), error.strerror or str(error)) from error
        return _usable(line.removesuffix(b"\r"), str(file))
    value = os.environb.get(VARIABLE.encode())
    return _usable(value, VARIABLE) if value else None


def for_key(key: Path, file: Path | None) -> bytes | None:
    """The passphrase of an existing key, asked for only if the key is encrypted."""
    passphrase = given(file)
    if passphrase is not None or not sys.stdin.isatty() or not key.is_file():
        return passphrase
    from aotc.bundle.sign.signing_keys import is_encrypted, read_key_file

    try:
        data = read_key_file(key)
    except OSError:  # whoever loads the key will say so
        return None
    if not is_encrypted(data):
        return None
    return asked(f"passphrase of {key}", confirm=False)


def asked(prompt: str, *, confirm: bool) -> bytes:
    """The passphrase as typed at the terminal."""
    answer: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True)
    return _usable(os.fsencode(answer), prompt)


def _usable(passphrase: bytes, where: str) -> bytes:
    if not passphrase:
        raise _unusable(where, "an empty first line")
    if len(passphrase) > BYTES_MAX:
        raise _unusable(where, "a longer one")
    return passphrase


def _unusable(where: str, found: str) -> AotcError:
    from aotc.base.errors import refusal

    return refusal("AOTC-E008", where, found, most=BYTES_MAX)
