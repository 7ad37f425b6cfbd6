"""Where a key's passphrase comes from: a file, the environment, or a prompt."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

VARIABLE = "AOTC_KEY_PASSPHRASE"


def given(file: Path | None) -> bytes | None:
    """The passphrase from a file (its first line) or the environment; None if neither is set.

    Raises UsageError (AOTC-E008) if the file cannot be read.
    """
    if file is not None:
        from aotc.errors import UsageError
        from aotc_runtime.errors import Finding

        try:
            return file.read_bytes().split(b"\n")[0].rstrip(b"\r")
        except OSError as error:
            raise UsageError(
                Finding(
                    code="AOTC-E008",
                    where=str(file),
                    expected="a file with the passphrase in its first line",
                    found=error.strerror or str(error),
                    hint=f"correct the path, or set {VARIABLE}",
                )
            ) from error
    value = os.environ.get(VARIABLE)
    return value.encode() if value else None


def for_key(key: Path, file: Path | None) -> bytes | None:
    """The passphrase of an existing key, asked for only if the key is encrypted."""
    passphrase = given(file)
    if passphrase is not None or not sys.stdin.isatty() or not key.is_file():
        return passphrase
    if b"ENCRYPTED" not in key.read_bytes():
        return None
    answer: str = click.prompt(f"passphrase of {key}", hide_input=True, err=True)
    return answer.encode()
