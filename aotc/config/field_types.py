"""Types of single fields in build manifests and target files.

Each validator raises `refusal`, with the phrase that completes "expected" and a hint.
"""

import datetime
import keyword
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, get_args

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from aotc.base.byte_sizes import bytes_of
from aotc.config.manifest_problem import Problem, duplicates, show
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema import bundle_manifest

REFUSED = "aotc"
"""The pydantic error type of `refusal`."""

_NAME = re.compile(get_args(bundle_manifest.Name)[1].pattern)
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(
    rf"\A{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:[-.]?[A-Za-z][A-Za-z0-9.-]{{0,63}})?\Z"
)


def refusal(
    expected: str, hint: str, *, found: str | None = None, code: str = "AOTC-E805", cause: str = ""
) -> PydanticCustomError:
    """Return the error that a validator raises.

    Arguments are as in `Problem`; `found` is None for the value itself.
    """
    told = Problem(code, (), hint, expected=expected, found=found or "", cause=cause)
    return _error(told, shows_value=found is None)


def problems_error(problems: Iterable[Problem]) -> ValidationError:
    """Return the error of a validator with several problems, at paths below its value."""
    return ValidationError.from_exception_data(
        REFUSED, [InitErrorDetails(type=_error(p), loc=p.path, input=None) for p in problems]
    )


def _error(problem: Problem, *, shows_value: bool = False) -> PydanticCustomError:
    context = {"expected": problem.expected, "problem": problem, "shows_value": shows_value}
    return PydanticCustomError(REFUSED, "{expected}", context)


def problem_of(details: ErrorDetails, path: KeyPath) -> Problem:
    """Return the problem of such an error; `path` leads to the value."""
    context = details["ctx"]
    problem: Problem = context["problem"]
    found = show(details["input"]) if context["shows_value"] else problem.found
    names = (*path[:-1], problem.names[-1]) if problem.names else None
    return replace(problem, path=path, found=found, names=names)


def accepting[T](
    accepts: Callable[[T], bool], expected: str, hint: str = "correct the value"
) -> AfterValidator:
    """Return a validator of the values for which a predicate holds."""

    def check(value: T) -> T:
        if not accepts(value):
            raise refusal(expected, hint)
        return value

    return AfterValidator(check)


def _distinct(raw: object) -> object:
    if problems := [*duplicates(raw)] if isinstance(raw, list) else []:
        raise problems_error(problems)
    return raw


def is_identifier(text: str) -> bool:
    """Return whether a text is an ASCII Python identifier that fits a name in JSON."""
    return bool(_NAME.match(text)) and text.isidentifier() and not keyword.iskeyword(text)


def is_function_reference(text: str) -> bool:
    """Return whether a text has the form "package.module:function".

    Attributes of attributes may follow the colon.
    """
    module, _, attribute = text.partition(":")
    steps = [*module.split("."), *attribute.split(".")]
    return all(s.isidentifier() and not keyword.iskeyword(s) for s in steps)


type Plain = bool | int | float | str | Sequence[Plain] | Mapping[str, Plain]
"""TOML values except dates and times."""


def is_plain(value: object) -> bool:
    """Return whether a TOML value consists of strings, numbers and booleans."""
    match value:
        case dict():
            return all(is_plain(item) for item in value.values())
        case list():
            return all(is_plain(item) for item in value)
        case _:
            return not isinstance(value, datetime.date | datetime.time)


def _plain(value: Plain) -> Plain:
    if not is_plain(value):
        raise refusal(PLAIN_EXPECTED, "write a date as a string")
    return value


def _bytes(value: object) -> int:
    if (amount := bytes_of(value)) is None:
        expected = 'a number of bytes, or a string such as "2 GiB"'
        raise refusal(expected, "use the unit B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")
    return amount


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        example = "a number without quotes" if isinstance(value, str) else "a number such as 0.9"
        raise refusal("a finite number", f"write {example}")
    return value


NAME_EXPECTED = (
    "1 to 128 ASCII letters, digits, '.', '_' and '-', of which the first is a letter, a digit "
    "or '_'"
)
IDENTIFIER_EXPECTED = "an ASCII Python identifier of at most 128 characters, other than a keyword"
REFERENCE_EXPECTED = 'a function reference "package.module:function"'
PLAIN_EXPECTED = "strings, numbers, booleans, arrays and tables"
SIZE_EXPECTED = "an integer of at least 1"

Name = Annotated[
    str, accepting(lambda v: bool(_NAME.match(v)), NAME_EXPECTED, "choose another name")
]
Identifier = Annotated[str, accepting(is_identifier, IDENTIFIER_EXPECTED, "choose another name")]
FunctionReference = Annotated[
    str, accepting(is_function_reference, REFERENCE_EXPECTED, "put one colon before the function")
]
Version = Annotated[
    str,
    accepting(
        lambda v: bool(_VERSION.match(v)),
        'three numbers with an optional suffix, such as "1.0.0" or "1.2.0-rc1"',
        "write all three numbers, without leading zeros",
    ),
]
FileText = Annotated[str, accepting(bool, "a file path", "write the path of the file")]
Line = Annotated[
    str, accepting(lambda v: v.isprintable() and 0 < len(v) <= 200, "1 to 200 printable characters")
]
Size = Annotated[int, accepting(lambda v: v >= 1, SIZE_EXPECTED, "write a size of at least 1")]
Error = Annotated[
    float,
    accepting(
        lambda v: v >= 0 and math.isfinite(v),
        "a finite number of at least 0",
        "write 0 to allow no difference",
    ),
]
Number = Annotated[int | float, PlainValidator(_number)]
Bytes = Annotated[int, PlainValidator(_bytes)]
PlainValue = Annotated[Plain, PlainValidator(_plain)]
Arrayed = Field(strict=False)
"""Converts TOML's arrays to tuples."""


def _automatic(value: object) -> object:
    if isinstance(value, str) and value != "auto":
        raise refusal('"auto", or a table', 'write `"auto"`, or the keys of the table')
    return {"auto": True} if value == "auto" else value


Automatic = BeforeValidator(_automatic)
"""A table whose key `auto` the text "auto" may stand for."""
Distinct = BeforeValidator(_distinct)
"""An array with each value once."""


ByName = AfterValidator(lambda values: dict(sorted(values.items())))
"""Sorts a table whose order means nothing."""
