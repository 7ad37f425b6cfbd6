"""What pydantic found wrong, as problems in the words of a TOML file."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from aotc.config.fields import REFUSED
from aotc.config.problem import Problem, show, unknown_key
from aotc_runtime.formats.toml_source import KeyPath

_PHRASES = {
    "string_type": ("a string", "write it in quotes"),
    "int_type": ("an integer", "write a whole number without quotes"),
    "float_type": ("a number", "write a number without quotes"),
    "bool_type": ("true or false", "write it without quotes"),
    "dict_type": ("a table", "write it as [table] or { key = value }"),
    "model_type": ("a table", "write it as [table] or { key = value }"),
    "list_type": ("an array", "write it in brackets"),
    "literal_error": ("{expected}", "correct the value"),
    "too_short": ("at least {min_length} of them", "add what is missing"),
    "too_long": ("at most {max_length} of them", "remove what is too much"),
    "greater_than_equal": ("a number of at least {ge}", "correct the value"),
    "less_than_equal": ("a number of at most {le}", "correct the value"),
}


def validate[M: BaseModel](data: object, model: type[M]) -> tuple[M | None, list[Problem]]:
    """The data as a model, or None and everything that is wrong with it.

    Codes: AOTC-E803 unknown key, AOTC-E804 missing key, AOTC-E805 wrong type or value.
    """
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [_problem(model, details) for details in error.errors(include_url=False)]


def _problem(model: type[BaseModel], details: Any) -> Problem:
    kind: str = details["type"]
    path: KeyPath = tuple(details["loc"])
    context: dict[str, Any] = details.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(path, [*_fields(model, path[:-1])])
    if kind == "missing":
        examples = _fields(model, path[:-1])[str(path[-1])].examples
        return Problem(
            code="AOTC-E804",
            path=path,
            expected=f"the key {path[-1]}",
            found="no such key",
            hint=f"add it, for example {examples[0]}" if examples else "add it",
        )
    if kind == REFUSED:
        expected, hint = context["expected"], context["hint"]
    else:
        phrase, hint = _PHRASES.get(kind, (details["msg"], "correct the value"))
        expected = phrase.format_map(context) if kind in _PHRASES else phrase
    if path[-1:] == ("[key]",):
        path = path[:-1]
    return Problem("AOTC-E805", path, expected, show(details["input"]), hint)


def _fields(model: type[BaseModel], path: KeyPath) -> dict[str, FieldInfo]:
    """The keys that a model has at a path, as they are written."""
    found: type[BaseModel] | None = model
    annotation: Any = None
    for step in path:
        if found is None:
            found = _model_in(annotation)
            continue
        annotation = _own_fields(found)[str(step)].annotation
        found = annotation if _is_model(annotation) else None
    return _own_fields(found) if found else {}


def _own_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a table or an array of models holds."""
    return next((part for part in get_args(annotation) if _is_model(part)), None)
