"""Findings about every key of a trust policy that is unknown, missing, or has an invalid value.

msgspec stops at its first error. This module calls it once for each value, so that all errors are
reported at once and in TOML's terms. It is imported only after msgspec rejected a policy.
"""

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Struct, inspect

from aotc_runtime.base.errors import Finding, finding
from aotc_runtime.base.suggestions import closest, did_you_mean
from aotc_runtime.formats.toml_source import KeyPath, key_lines, place, render_path
from aotc_runtime.schema import trust_policy
from aotc_runtime.schema.bundle_manifest import Digest
from aotc_runtime.schema.trust_policy import MetricRule, TrustPolicy

_HINT = "docs/reference/trust-policy.md lists the keys of a policy and their types"

_MANIFEST_KEYS = {"entry_points", "targets"}

_ID = "a key's id, 64 hexadecimal digits"
_PATTERNS = {
    get_args(trust_policy.KeyId)[1].pattern: (
        _ID,
        "`aotc trust show` lists the ids of the policy's keys",
    ),
    get_args(Digest)[1].pattern: (
        "a digest, sha256: and 64 hexadecimal digits",
        "`aotc inspect` shows the root digest of a bundle",
    ),
    get_args(trust_policy.SourceDigest)[1].pattern: (
        'a digest as provenance names it, such as "sha256:…" or "gitCommit:…"',
        _HINT,
    ),
    get_args(trust_policy.RequiredMetric)[1].pattern: (
        'an entry point and its metric, such as "classify.top1"',
        "`aotc inspect` shows the metrics of a bundle",
    ),
    get_args(trust_policy.ChannelName)[1].pattern: (
        'a name of up to 64 letters, digits and ._-, such as "production"',
        "`aotc channel status` lists those of a channel",
    ),
}


class Places:
    """The positions of a policy's keys in its TOML text; None for one that was made in Python."""

    def __init__(self, file: str, text: str | None) -> None:
        self._file = file
        self._lines = None if text is None else key_lines(text)

    def locate(self, path: KeyPath) -> str:
        """Return a location such as "trust.toml:7 keys[0].not_after", without an unknown line."""
        if self._lines is None:
            return f"{self._file} {render_path(path)}".rstrip()
        return place(self._file, self._lines, path)


def policy_problems(document: Any, where: str, text: str | None = None) -> Iterator[Finding]:
    """Yield AOTC-E309 for each key that is unknown, missing, or has a wrong type or range.

    `text` is as for `Places`.
    """
    known = Places(where, text)
    if isinstance(document, Mapping) and document.keys() >= _MANIFEST_KEYS:
        found, hint = "a build manifest", "pass the policy that `aotc trust init` wrote"
        yield finding("AOTC-E309", where, found, expected="a trust policy", hint=hint)
        return
    for path, expected, found, hint in _problems(document, inspect.type_info(TrustPolicy), ()):
        yield finding("AOTC-E309", known.locate(path), found, expected=expected, hint=hint)


type _Problem = tuple[KeyPath, str, str, str]


def _problems(value: Any, wanted: inspect.Type, path: KeyPath) -> Iterator[_Problem]:
    wanted = _plain(wanted, value)
    if isinstance(wanted, inspect.StructType) and isinstance(value, Mapping):
        yield from _table_problems(value, wanted, path)
    elif (
        isinstance(wanted, inspect.VarTupleType)
        and isinstance(value, list | tuple)
        and len(value) >= (wanted.min_length or 0)
    ):
        for index, item in enumerate(value):
            yield from _problems(item, wanted.item_type, (*path, index))
    elif isinstance(wanted, inspect.DictType) and isinstance(value, Mapping):
        for name, item in value.items():
            if _is(name, _plain(wanted.key_type)):
                yield from _problems(item, wanted.value_type, (*path, name))
                continue
            expected, found, hint = _describe(name, _plain(wanted.key_type))
            if isinstance(item, Mapping) and item.keys().isdisjoint(MetricRule.__struct_fields__):
                found = _short(item)
                hint = f'write the key in quotes, such as `"{name}.{next(iter(item), "top1")}"`'
            yield (*path, name), expected, found, hint
    elif not _is(value, wanted):
        yield path, *_describe(value, wanted)


def _table_problems(
    value: Mapping[str, Any], table: inspect.StructType, path: KeyPath
) -> Iterator[_Problem]:
    fields = {field.name: field for field in table.fields}
    meant = {name: closest(name, fields) for name in value if name not in fields}
    for name, close in meant.items():
        hint = f"did you mean `{close}`?" if close else "correct the key, or remove it"
        yield (*path, name), f"one of: {', '.join(fields)}", "an unknown key", hint
    for name, field in fields.items():
        if name in value:
            if not (value[name] is None and not field.required):
                yield from _problems(value[name], field.type, (*path, name))
        elif field.required and name not in meant.values():
            yield (*path, name), f"the key `{name}`", "no such key", f"add `{name} = …`"


def _plain(wanted: inspect.Type, value: Any = None) -> inspect.Type:
    """Return a type without metadata and without None; of a value or a table, the one it is for."""
    while isinstance(wanted, inspect.Metadata | inspect.UnionType):
        if isinstance(wanted, inspect.Metadata):
            wanted = wanted.type
        else:
            types = [each for each in wanted.types if not isinstance(each, inspect.NoneType)]
            is_table = isinstance(value, Mapping)
            types.sort(key=lambda each: isinstance(each, inspect.StructType) is not is_table)
            wanted = types[0]
    return wanted


def _is(value: Any, wanted: inspect.Type) -> bool:
    match wanted:
        case inspect.IntType(ge=least, le=most):
            return _converts(value, int, msgspec.Meta(ge=least, le=most))
        case inspect.StrType(min_length=shortest, pattern=pattern):
            return _converts(value, str, msgspec.Meta(min_length=shortest, pattern=pattern))
        case inspect.DateTimeType(tz=tz):
            return _converts(value, datetime, msgspec.Meta(tz=tz))
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.EnumType(cls=choices):
            return value in [each.value for each in choices]
        case inspect.LiteralType(values=choices):
            return value in choices
        case _:
            return False


def _converts(value: Any, wanted: type, meta: msgspec.Meta) -> bool:
    try:
        msgspec.convert(value, Annotated[wanted, meta])
    except msgspec.ValidationError:
        return False
    return True


def _describe(value: Any, wanted: inspect.Type) -> tuple[str, str, str]:
    """Return the expected value, the value found, and a hint."""
    found = _short(value)
    match wanted:
        case inspect.IntType(ge=least, le=most):
            if least == most:
                return str(least), found, f"write {least}"
            text = f"an integer of at least {least}" + (f", at most {most}" if most else "")
            return text, found, "write an integer without quotes"
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return (*_PATTERNS[pattern][:1], found, *_PATTERNS[pattern][1:])
        case inspect.StrType():
            hint = "remove the key, or write some text" if value == "" else "write it in quotes"
            return "a non-empty string", found, hint
        case inspect.FloatType():
            hint = "write it without quotes" if isinstance(value, str) else "write a number"
            return "a number", found, hint
        case inspect.DateTimeType():
            hint = "write it without quotes, with `Z` or an offset such as `+02:00`"
            if isinstance(value, datetime):
                hint = "add `Z` for UTC, or an offset such as `+02:00`"
            elif isinstance(value, date):
                hint = f"write it as {value.isoformat()}T00:00:00Z"
            return "a time such as 2027-01-01T00:00:00Z", found, hint
        case inspect.EnumType(cls=choices):
            names = sorted(each.value for each in choices)
            return f"one of: {', '.join(names)}", found, did_you_mean(value, names, _HINT)
        case inspect.LiteralType(values=choices):
            names = [str(each) for each in choices]
            return f"one of: {', '.join(names)}", found, did_you_mean(value, names, _HINT)
        case inspect.VarTupleType(min_length=shortest):
            kind = "a non-empty array" if shortest else "an array"
            if not value and isinstance(value, list | tuple):
                return kind, found, "add a value; without the key, everything is accepted"
            hint = f"write `[{found}]`" if isinstance(value, str) else "write it in brackets"
            if isinstance(value, Mapping):
                hint = "write the table's header in two brackets, such as `[[keys]]`"
            return kind, found, hint
        case _:
            return "a table", found, "write it as `[table]` or `{ key = value }`"


def _short(value: Any) -> str:
    if isinstance(value, Struct):
        return type(value).__name__
    text = value.isoformat() if isinstance(value, date) else repr(value)
    if isinstance(value, str):
        text = f'"{value}"'
    return text if len(text) <= 80 else text[:77] + "..."
