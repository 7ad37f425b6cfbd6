"""Texts that entries of a policy have in files of their own, such as certificates.

Imported where a policy has entries that may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aotc_runtime.base.errors import Finding
from aotc_runtime.verification.policy_reader import read_text
from aotc_runtime.verification.policy_refusals import unreadable_file


def with_texts[T: msgspec.Struct](
    entries: Sequence[T],
    field: str,
    folder: Path,
    place: Callable[[int, T], str],
    no_text: Callable[[str, ValueError], Finding],
    findings: list[Finding],
) -> tuple[T, ...]:
    """Entries with the texts of the files that they name: `field` for what `field`_file names. One
    that states both, or neither, stays as it is.

    folder: where files are looked for.  place: of an entry, by its index, for messages.  no_text:
    what is found wrong with a file that is none. What cannot be read (AOTC-E308, and what no_text
    makes) is added to findings.
    """
    read = []
    for index, entry in enumerate(entries):
        name = getattr(entry, f"{field}_file")
        if name and not getattr(entry, field):
            file = folder / name
            where = f"{place(index, entry)} {file}"
            try:
                text = read_text(file)
            except OSError as error:
                findings.append(unreadable_file(where, error))
                continue
            except ValueError as error:
                findings.append(no_text(where, error))
                continue
            entry = msgspec.structs.replace(entry, **{field: text, f"{field}_file": ""})
        read.append(entry)
    return tuple(read)
