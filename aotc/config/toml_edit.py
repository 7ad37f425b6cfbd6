"""Changes of TOML files in place, which keep the rest of their text, comments included."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError

from aotc.base.errors import refusal
from aotc.config import toml_document
from aotc_runtime.base.errors import AotcError

POLICY, MANIFEST = "policy", "build manifest"

_CAUSES = {POLICY: "", MANIFEST: "build-manifest-is-not-editable-in-place"}


def with_value(manifest: Path, keys: Sequence[str], value: Any) -> bytes | None:
    """Return the text of a build manifest with another value of a key; None if it has that value.

    `keys` is the key's path; missing tables are added. `value` has numbers, strings, lists, dicts.

    Raises:
        BuildManifestError: AOTC-E801, E802 for a file that cannot be read.
        UsageError: AOTC-E024 where this cannot be done in place.
    """
    text = toml_document.read(manifest, MANIFEST).source.decode()
    document, wanted = parse(text, MANIFEST), tomllib.loads(text)
    table: Any = document
    plain: Any = wanted
    for key in keys[:-1]:
        table = table.setdefault(key, tomlkit.table(is_super_table=key != keys[-2]))
        plain = plain.setdefault(key, {})
    if plain.get(keys[-1]) == value:
        return None
    table[keys[-1]] = plain[keys[-1]] = value
    return render(document, wanted, MANIFEST).encode()


def parse(text: str, what: str) -> TOMLDocument:
    """Return valid TOML as a document to change; `what` is `POLICY` or `MANIFEST`.

    Raises UsageError (AOTC-E024) for a text whose tables would be moved.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise _not_in_place(what, str(error)) from error
    # Tables of one list that stand apart would be moved together.
    if tomlkit.dumps(document) != text:
        raise _not_in_place(what, f"a {what} whose tables would be moved, such as [[keys]] apart")
    return document


def render(document: TOMLDocument, wanted: dict[str, Any], what: str) -> str:
    """Return a changed document as text, once another reader finds the `wanted` values in it.

    `document` is from `parse`, `what` as there. Raises UsageError (AOTC-E024) for other values.
    """
    text = tomlkit.dumps(document)
    try:
        found = tomllib.loads(text)
    except ValueError as error:
        raise _not_in_place(what, str(error)) from error
    if found != wanted:
        raise _not_in_place(what, f"a {what} that would say something else afterwards")
    return text


def _not_in_place(what: str, found: str) -> AotcError:
    return refusal("AOTC-E024", what, found, cause=_CAUSES[what])
