"""Reads parsed TOML as typed values, and tells what is wrong in the words of a TOML file.

A `Section` is a frozen dataclass whose fields are the keys of a table, with their types and
defaults. pydantic reads it; a plain construction checks nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from aotc.config.field_types import REFUSED, refused
from aotc.config.manifest_problem import Problem, show, unknown_key
from aotc_runtime.formats.toml_source import KeyPath

_PHRASES = {
    "string_type": ("a string", "write it in quotes"),
    "int_type": ("an integer", "write a whole number without quotes"),
    "float_type": ("a number", "write a number without quotes"),
    "bool_type": ("true or false", "write it without quotes"),
    "dict_type": ("a table", "write it as [table] or { key = value }"),
    "model_type": ("a table", "write it as [table] or { key = value }"),
    "dataclass_type": ("a table", "write it as [table] or { key = value }"),
    "list_type": ("an array", "write it in brackets"),
    "tuple_type": ("an array", "write it in brackets"),
    "literal_error": ("{expected}", "correct the value"),
    "too_short": ("at least {min_length} of them", "add what is missing"),
    "too_long": ("at most {max_length} of them", "remove what is too much"),
    "greater_than_equal": ("a number of at least {ge}", "correct the value"),
    "less_than_equal": ("a number of at most {le}", "correct the value"),
}
type Keys = Mapping[str, FieldInfo]

DEFERRED = ConfigDict(defer_build=True)
"""What reads a value is made when one is read: children of a build import these types with a
manifest's values, and read none.
"""

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_MENDED_MAX = 1000
"""Rounds of leaving out what cannot be read: each leaves out at least one value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file is read with. root: the folder in which its relative paths start.  is_draft:
    leave out what cannot be read, and read what is missing as in the key's example.
    """

    root: Path
    is_draft: bool = False


class Section:
    """A table with keys of its own."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, **DEFERRED)

    @classmethod
    def together(cls, keys: Collection[str]) -> Iterator[Problem]:
        """What is wrong with these keys beside each other, whatever their values are."""
        yield from ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        # Strict fields, but no instance of the class is asked for where a file has a table.
        cast("core_schema.DataclassSchema", handler.resolve_ref_schema(schema))["strict"] = False
        return core_schema.with_info_wrap_validator_function(
            partial(_section, cls, keys_of(cls)), schema
        )


def _section(
    section: type[Section],
    keys: Keys,
    raw: object,
    read: ValidatorFunctionWrapHandler,
    info: ValidationInfo,
) -> object:
    if isinstance(info.context, Reading) and info.context.is_draft:
        return _drafted(keys, raw, read)
    value, problems = None, []
    try:
        value = read(raw)
    except ValidationError as error:
        problems += _problems(keys, error)
    problems += section.together(raw.keys()) if isinstance(raw, dict) else ()
    if problems:
        raise refused(problems)
    return value


def _drafted(keys: Keys, raw: object, read: ValidatorFunctionWrapHandler) -> object:
    for _ in range(_MENDED_MAX):
        try:
            return read(raw)
        except ValidationError as error:
            if not isinstance(raw, dict) or (mended := _mended(keys, raw, error)) is None:
                raise
            raw = mended
    raise AssertionError("values that cannot be read are left out until none is left")


def _mended(
    keys: Keys, raw: Mapping[str, object], error: ValidationError
) -> dict[str, object] | None:
    """A table without what cannot be read and with what is missing; None where that is unknown."""
    mended = deepcopy(dict(raw))
    for details in error.errors(include_url=False):
        path = details["loc"]
        if details["type"] != "missing" or len(path) > 1:
            _leave_out(mended, path)
        elif examples := keys[str(path[0])].examples:
            mended |= tomllib.loads(examples[0])
        else:
            return None
    return mended


def _leave_out(table: dict[str, object], path: KeyPath) -> None:
    """Without the value at a path, or without the array or table that lacks it there."""
    for key, inner in pairwise(path):
        below = table.get(str(key))
        if not isinstance(below, dict) or inner not in below:
            table.pop(str(key), None)
            return
        table = below
    table.pop(str(path[-1]), None)


def read_section[S](
    data: object, section: TypeAdapter[S], reading: Reading
) -> tuple[S, list[Problem]]:
    """The data as a section, and everything that is wrong with it: a draft, if anything is.

    Codes: AOTC-E803 unknown key, AOTC-E804 missing key, AOTC-E805 wrong type or value; and those
    of the problems that sections find.
    """
    try:
        return section.validate_python(data, context=reading), []
    except ValidationError as error:
        draft = section.validate_python(data, context=replace(reading, is_draft=True))
        return draft, _problems({}, error)


def validate[M: BaseModel](data: object, model: type[M]) -> tuple[M | None, list[Problem]]:
    """The data as a model, or None and everything that is wrong with it.

    Codes: AOTC-E803 unknown key, AOTC-E804 missing key, AOTC-E805 wrong type or value.
    """
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, _problems(keys_of(model), error)


def _problems(keys: Keys, error: ValidationError) -> list[Problem]:
    return [_problem(keys, details) for details in error.errors(include_url=False)]


def _problem(keys: Keys, details: ErrorDetails) -> Problem:
    kind, path = details["type"], details["loc"]
    context = details.get("ctx", {})
    if path[-1:] == ("[key]",):
        path = path[:-1]
    if kind in _UNKNOWN:
        return unknown_key(path, [*keys])
    if kind == "missing":
        key = keys[str(path[-1])]
        example = f", for example {key.examples[0]}" if key.examples else ""
        return Problem(
            code="AOTC-E804",
            path=path,
            expected=f"the key {path[-1]}",
            found="no such key",
            hint=key.description or f"add it{example}",
        )
    if kind == REFUSED:
        expected, hint = context["expected"], context["hint"]
        found = context["found"] or show(details["input"])
        meant = context["meant"]
        names = (*path[:-1], meant) if meant else None
        return Problem(context["code"], path, expected, found, hint, names)
    phrase, hint = _PHRASES.get(kind, (details["msg"], "correct the value"))
    expected = phrase.format_map(context) if kind in _PHRASES else phrase
    return Problem("AOTC-E805", path, expected, show(details["input"]), hint)


def keys_of(model: type) -> Keys:
    """The keys of a section or model, as they are written."""
    if issubclass(model, BaseModel):
        found = dict(model.model_fields)
    else:
        hints = get_type_hints(model, include_extras=True)
        found = {name: FieldInfo.from_annotation(hint) for name, hint in hints.items()}
    return {key.alias or name: key for name, key in found.items()}
