"""Changing the text of a trust policy; comments, order and spelling of the rest stay."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Item

from aotc.base.errors import refusal
from aotc_runtime.base.errors import AotcError

_EMPTY_LINE_BEHIND = re.compile(r"\r?\n[ \t]*\r?\n\Z")


def with_key(
    text: str,
    pem: str,
    name: str,
    not_before: datetime | None,
    not_after: datetime | None,
    table: str = "keys",
    holder: str = "",
    builders: Sequence[str] | None = None,
) -> str:
    """The policy with one more key, the last of its table. text: a valid policy.  table: "keys" or
    "certifiers".  holder, builders: as a policy states them.

    Raises UsageError (AOTC-E024) where this cannot be done in place.
    """
    stated = {
        "name": name or None,
        "holder": holder or None,
        "builders": None if builders is None else [*builders],
        "public_key": f"{pem.strip()}\n",
        "not_before": not_before,
        "not_after": not_after,
    }
    fields = {key: value for key, value in stated.items() if value is not None}
    wanted = tomllib.loads(text)
    wanted.setdefault(table, []).append(fields)
    document = _parse(text)
    if table not in document:
        if not _EMPTY_LINE_BEHIND.search(text):
            document.add(tomlkit.nl())
        document[table] = tomlkit.aot()
    keys: Any = document[table]
    entry: Any = tomlkit.table() if isinstance(keys, AoT) else tomlkit.inline_table()
    for key, value in fields.items():
        # As `aotc trust init` writes it: the PEM text begins on a line of its own.
        pem_text = key == "public_key"
        entry[key] = tomlkit.value(f'"""\n{value}"""') if pem_text else value
    if isinstance(keys, AoT):
        if keys.body:
            _set_apart(keys.body[-1])
        if [*document][-1] != table:
            entry.add(tomlkit.nl())
    keys.append(entry)
    return _checked(document, wanted)


def with_revoked(
    text: str,
    *,
    keys: Sequence[str] = (),
    roots: Sequence[str] = (),
    blobs: Sequence[str] = (),
    since: Mapping[str, datetime] = MappingProxyType({}),
) -> str:
    """The policy with these key ids and digests under `revoked`. text: a valid policy.  since: ids
    of keys that are revoked from a time on.

    Raises UsageError (AOTC-E024) where this cannot be done in place.
    """
    added = {"keys": keys, "roots": roots, "blobs": blobs}
    wanted = tomllib.loads(text)
    document = _parse(text)
    if "revoked" not in document:
        if not _EMPTY_LINE_BEHIND.search(text):
            document.add(tomlkit.nl())
        document["revoked"] = tomlkit.table()
    revoked: Any = document["revoked"]
    for name, values in added.items():
        if values:
            wanted.setdefault("revoked", {}).setdefault(name, []).extend(values)
            if name in revoked:
                revoked[name].extend(values)
            else:
                revoked[name] = _list(values)
    if since:
        wanted.setdefault("revoked", {}).setdefault("since", {}).update(since)
        if "since" not in revoked:
            revoked["since"] = tomlkit.inline_table()
        for key, moment in since.items():
            revoked["since"][key] = moment
    return _checked(document, wanted)


def _checked(document: TOMLDocument, wanted: dict[str, Any]) -> str:
    """The document as text, once another reader finds in it what it should say."""
    text = tomlkit.dumps(document)
    try:
        found = tomllib.loads(text)
    except ValueError as error:
        raise _not_in_place(str(error)) from error
    if found != wanted:
        raise _not_in_place("a policy that would say something else afterwards")
    return text


def _not_in_place(found: str) -> AotcError:
    return refusal("AOTC-E024", "policy", found)


def _list(values: Iterable[str]) -> Item:
    array = tomlkit.array()
    array.extend(values)
    return array.multiline(True)


def _set_apart(last: Any) -> None:
    """An empty line behind the last key, where the next one begins."""
    if not _EMPTY_LINE_BEHIND.search(last.as_string()):
        last.add(tomlkit.nl())


def _parse(text: str) -> TOMLDocument:
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise _not_in_place(str(error)) from error
    # Tables of one list that stand apart would be moved together.
    if tomlkit.dumps(document) != text:
        raise _not_in_place("a policy whose tables would be moved, such as [[keys]] apart")
    return document
