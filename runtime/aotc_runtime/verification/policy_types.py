"""Everything that a policy document says and no policy may say, with the key it stands at.

msgspec stops at its first complaint; this asks it once per key, so that a policy is corrected in
one go. Only a document that was refused comes here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from aotc_runtime.errors import Finding
from aotc_runtime.schema.policy import TrustPolicy

_HINT = "docs/trust.md lists the keys of a policy and their types"


def policy_problems(document: Any, where: str) -> Iterator[Finding]:
    """AOTC-E309 for each key that is unknown, missing or of another type or range."""
    yield from _problems(document, TrustPolicy, where, where)


def _problems(value: Any, wanted: Any, where: str, file: str) -> Iterator[Finding]:
    table, list_of = _struct(wanted), _struct_of_items(wanted)
    if table is not None and isinstance(value, dict):
        yield from _table_problems(value, table, where, file)
    elif list_of is not None and isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _problems(item, list_of, f"{where}[{index}]", file)
    else:
        try:
            msgspec.convert(value, wanted)
        except msgspec.ValidationError as error:
            yield Finding("AOTC-E309", where, _expected(str(error)), _short(value), _HINT)


def _table_problems(
    value: dict[str, Any], table: type[Struct], where: str, file: str
) -> Iterator[Finding]:
    separator = " " if where == file else "."
    fields = {field.name: field for field in msgspec.structs.fields(table)}
    for name in value.keys() - fields.keys():
        known = ", ".join(fields)
        place = f"{where}{separator}{name}"
        yield Finding("AOTC-E309", place, f"one of {known}", "an unknown key", _HINT)
    for name, field in fields.items():
        place = f"{where}{separator}{name}"
        if name in value:
            yield from _problems(value[name], field.type, place, file)
        elif field.required:
            yield Finding("AOTC-E309", place, "a value: the key is required", "no such key", _HINT)


def _struct(wanted: Any) -> type[Struct] | None:
    return wanted if isinstance(wanted, type) and issubclass(wanted, Struct) else None


def _struct_of_items(wanted: Any) -> type[Struct] | None:
    """Of `Annotated[tuple[SomeStruct, ...], Meta(...)]`, the struct."""
    inner = wanted.__origin__ if hasattr(wanted, "__metadata__") else wanted
    return _struct(get_args(inner)[0]) if get_origin(inner) is tuple else None


def _expected(message: str) -> str:
    """Expected `int` >= 1 - at `$`: what comes before the place, which is told by its name."""
    return message.partition(" - at `")[0].removeprefix("Expected ").replace("`", "")


def _short(value: Any) -> str:
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
