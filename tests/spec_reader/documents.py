"""The types of docs/reference/bundle-format.md, and JSON as that page reads it."""

import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.setrecursionlimit(20_000)
"""Trees have up to 256 levels, of several calls each."""


class Rejected(Exception):
    """The verdict on a bundle: a code, without its prefix, such as "E118"."""


@contextmanager
def rejecting(code: str) -> Iterator[None]:
    """Make a value that cannot be read the verdict."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise Rejected(code) from error


def reject_if(is_wrong: object, code: str, what: str = "") -> None:
    """Raise the verdict where something is wrong."""
    if is_wrong:
        raise Rejected(code, what)


_TYPES = tomllib.loads(Path(__file__).with_name("types.toml").read_text("utf-8"))
PATTERNS = {**_TYPES["patterns"], "dtype": _TYPES["dtypes"]["names"].replace(" ", "|")}
STRUCTS, UNIONS = _TYPES["structs"], _TYPES["unions"]
RANGES, DEFAULTS = _TYPES["ranges"], _TYPES["defaults"]


def fits(value: Any, kind: str) -> bool:
    """Return whether a value is of a type, and nothing in it is unknown."""
    kind = UNIONS.get(kind, kind)
    if "|" in kind and kind[0] not in "[{":
        return any(fits(value, each) for each in kind.split("|"))
    if kind.startswith("["):
        return isinstance(value, list) and all(fits(item, kind[1:-1]) for item in value)
    if kind.startswith("{"):
        key, _, item = kind[1:-1].partition(":")
        is_object = isinstance(value, dict) and all(fits(name, key) for name in value)
        return is_object and all(fits(each, item) for each in value.values())
    if kind.startswith("("):
        return isinstance(value, str) and value in kind[1:-1].split()
    if kind in RANGES:
        low, high = RANGES[kind]
        return type(value) is int and low <= value <= high
    if kind in PATTERNS:
        return isinstance(value, str) and re.fullmatch(PATTERNS[kind], value) is not None
    if kind in ("str", "bool", "any"):
        return isinstance(value, {"str": str, "bool": bool, "any": object}[kind])
    fields = _fields(kind)
    required = {name for name in fields if not name.endswith("?")}
    stated = {name.rstrip("?"): each for name, each in fields.items()}
    if not isinstance(value, dict) or not required <= value.keys() <= stated.keys():
        return False
    # In the order of the type: the tag, the first, decides about trees before their items do.
    return all(fits(value[name], each) for name, each in stated.items() if name in value)


def known(value: Any, kind: str) -> Any:
    """Return the fields of a type, without unknown ones. Raises E106 where they are of others."""
    names = [name.rstrip("?") for name in _fields(kind)]
    found = {name: value[name] for name in names if name in value} if isinstance(value, dict) else 0
    reject_if(not fits(found, kind), "E106")
    return found


def _fields(kind: str) -> dict[str, str]:
    """Return the fields of a struct with their types; the names of optional ones end in `?`."""
    # A list of strings has blanks in its parentheses.
    return dict(re.findall(r"([\w?]+):((?:\([^)]*\)|\S)+)", STRUCTS[kind]))


def _is_misspelled(value: Any) -> bool:
    if isinstance(value, dict):
        lacks = [v for k, v in DEFAULTS["written"].items() if k in value and not {*v} <= {*value}]
        has_one_device = "triple" in value and value.get("devices", 2) == 1
        if lacks or has_one_device or any(not value.get(name, 1) for name in DEFAULTS["empty"]):
            return True
        value = [*value.values()]
    return isinstance(value, list) and any(map(_is_misspelled, value))


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _parsed(data: bytes, pairs: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """Return JSON. Raises ValueError and RecursionError."""
    return json.loads(
        data.decode(), object_pairs_hook=pairs, parse_constant=_finite, parse_float=_finite
    )


def foreign(data: bytes, marks: int) -> Any:
    """Return JSON in any spelling, with each key once in an object."""
    reject_if(sum(map(data.count, b",:[{")) > marks, "E111")
    with rejecting("E106"):
        return _parsed(data, _each_once)


def canonical(data: bytes, kind: str) -> Any:
    """Return a document in its one spelling."""
    with rejecting("E101"):
        value = _parsed(data, dict)
        reject_if(not fits(value, kind), "E101")
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        spelled = text.encode()
    reject_if(spelled != data or _is_misspelled(value), "E102")
    return value
