"""Reads parsed TOML as the types it should have; other checks report wrong types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any


def table(value: object) -> dict[str, Any]:
    """The value if it is a table, an empty one otherwise."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of a table, with their names."""
    return ((name, item) for name, item in table(value).items() if isinstance(item, dict))


def declared(data: Mapping[str, Any], key: str) -> Collection[str] | None:
    """The names that `[key.NAME]` tables declare; None if `key` is no table at all."""
    value = data.get(key, {})
    return value.keys() if isinstance(value, dict) else None
