"""Validates parsed TOML as typed values, with problems in terms of TOML.

A `Section` is a frozen dataclass whose fields are the keys of a table, with their types and
defaults. pydantic reads it; plain construction checks nothing.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from aotc.config.field_types import REFUSED, problem_of, problems_error
from aotc.config.manifest_problem import Problem, show, spell, unknown_key
from aotc_runtime.base.suggestions import did_you_mean

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
    "too_short": ("at least {min_length} values", "add the missing values"),
    "too_long": ("at most {max_length} values", "remove the surplus values"),
    "greater_than_equal": ("a number of at least {ge}", "correct the value"),
    "less_than_equal": ("a number of at most {le}", "correct the value"),
}
type Keys = Mapping[str, FieldInfo]

DEFERRED = ConfigDict(defer_build=True)
"""Builds a validator when a value is read, not when its type is imported."""

_QUOTED = re.compile("'([^']*)'")
"""A value in pydantic's list of literals."""

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


class Section:
    """A table with keys of its own."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, **DEFERRED)

    @classmethod
    def together(cls, keys: Collection[str]) -> Iterator[Problem]:
        """Yield problems of these keys in combination, whatever their values are."""
        yield from ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        # Strict fields, but no instance of the class is asked for where a file has a table.
        cast("core_schema.DataclassSchema", handler.resolve_ref_schema(schema))["strict"] = False
        return core_schema.no_info_wrap_validator_function(
            partial(_section, cls, keys_of(cls)), schema
        )


def _section(
    section: type[Section], keys: Keys, raw: object, read: ValidatorFunctionWrapHandler
) -> object:
    value, problems = None, []
    try:
        value = read(raw)
    except ValidationError as error:
        problems += _problems(keys, error)
    problems += section.together(raw.keys()) if isinstance(raw, dict) else ()
    if problems:
        raise problems_error(problems)
    return value


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}
"""The validator of each type, built at the first use."""


def prepare(model: type) -> None:
    """Build the validator of a type, for processes that will be forked from this one."""
    _adapter(model).rebuild()


def _adapter(model: type) -> TypeAdapter[Any]:
    if model not in _ADAPTERS:
        _ADAPTERS[model] = TypeAdapter(model)
    return _ADAPTERS[model]


def validate[T](
    data: object, model: type[T], folder: Path | None = None
) -> tuple[T | None, list[Problem]]:
    """Validate data as a section or a model of pydantic: the value, or None and all problems.

    Relative paths start in `folder`. Codes are AOTC-E803 unknown key, AOTC-E804 missing key,
    AOTC-E805 wrong type or value, and those of the problems that sections find.
    """
    try:
        return _adapter(model).validate_python(data, context=folder), []
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
        return Problem("AOTC-E804", path, key.description or f"add it{example}")
    if kind == REFUSED:
        return problem_of(details, path)
    value = details["input"]
    if kind == "literal_error":
        known = _QUOTED.findall(context["expected"])
        expected = f"one of: {', '.join(map(spell, known))}"
        hint = did_you_mean(value, known, "correct the value")
        return Problem("AOTC-E805", path, hint, expected=expected, found=show(value))
    phrase, hint = _PHRASES.get(kind, (details["msg"], "correct the value"))
    expected = phrase.format_map(context) if kind in _PHRASES else phrase
    if expected == "an array" and isinstance(value, str) and "," not in value:
        hint = f"write `[{spell(value)}]`"
    elif expected in ("an array", "a table") and len(path) == 1 and path[0] in keys:
        examples = keys[str(path[0])].examples
        hint = f"write it as `{examples[0]}`" if examples else hint
    return Problem("AOTC-E805", path, hint, expected=expected, found=show(value))


def keys_of(model: type) -> Keys:
    """Return the keys of a section or model, as they are written."""
    if issubclass(model, BaseModel):
        found = dict(model.model_fields)
    else:
        hints = get_type_hints(model, include_extras=True)
        found = {name: FieldInfo.from_annotation(hint) for name, hint in hints.items()}
    return {key.alias or name: key for name, key in found.items()}
