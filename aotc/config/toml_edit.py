"""Changes of a build manifest that keep the rest of its text, comments included."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit

from aotc.config import toml_document


def with_value(manifest: Path, keys: Sequence[str], value: Any) -> bytes | None:
    """Return the text of a build manifest with another value of a key.

    Args:
        manifest: The file.
        keys: The path of the key; missing tables are added.
        value: Numbers, strings, lists and dicts.

    Returns:
        None where the key has this value already.

    Raises:
        BuildManifestError: AOTC-E801, E802 for a file that cannot be read.
    """
    document = tomlkit.parse(toml_document.read(manifest, "build manifest").source.decode())
    table: Any = document
    for key in keys[:-1]:
        table = table.setdefault(key, tomlkit.table(is_super_table=key != keys[-2]))
    if table.get(keys[-1]) == value:
        return None
    table[keys[-1]] = value
    return tomlkit.dumps(document).encode()
