"""The types of docs/reference/bundle-format.md, and JSON as that page reads it."""

import json
import math
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.setrecursionlimit(20_000)
"""Trees have up to 256 levels, of several calls each."""


class Rejected(Exception):
    """The verdict on a bundle: a code, without its prefix, such as "E118"."""

    def __init__(self, code: str, why: str = "") -> None:
        super().__init__(f"{code} {why}")
        self.code = code


def reject_if(is_wrong: object, code: str) -> None:
    """Raise the verdict where something is wrong."""
    if is_wrong:
        raise Rejected(code)


_TYPES = tomllib.loads(Path(__file__).with_name("types.toml").read_text("utf-8"))
PATTERNS = {**_TYPES["patterns"], "dtype": _TYPES["dtypes"]["names"].replace(" ", "|")}
STRUCTS, TAGGED = _TYPES["structs"], _TYPES["tagged"]
RANGES = {"count": (0, 2**63 - 1), "positive": (1, 2**63 - 1), "int64": (-(2**63), 2**63 - 1)}
RANGES |= {"two": (2, 2), "devices": (1, 65536)}

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"

EMPTY_BY_DEFAULT = {"sharding", "tools", "changes", "text", "artifactType", "variant"}
EMPTY_BY_DEFAULT |= {"annotations"}
"""Optional fields with an empty default, which is left out."""


def fits(value: Any, kind: str) -> bool:
    """Return whether a value is of a type, and nothing in it is unknown."""
    if "|" in kind and kind[0] not in "[{":
        return any(fits(value, each) for each in kind.split("|"))
    if kind.startswith("["):
        return isinstance(value, list) and all(fits(item, kind[1:-1]) for item in value)
    if kind.startswith("{"):
        key, _, item = kind[1:-1].partition(":")
        good = isinstance(value, dict) and all(fits(name, key) for name in value)
        return good and all(fits(each, item) for each in value.values())
    if kind.startswith("("):
        return isinstance(value, str) and value in kind[1:-1].split()
    if kind in RANGES:
        low, high = RANGES[kind]
        return type(value) is int and low <= value <= high
    if kind in PATTERNS:
        return isinstance(value, str) and re.fullmatch(PATTERNS[kind], value) is not None
    if kind in ("str", "bool", "any"):
        return isinstance(value, {"str": str, "bool": bool, "any": object}[kind])
    if not isinstance(value, dict):
        return False
    if kind in TAGGED:
        tag = TAGGED[kind]["tag"]
        stated = value.get(tag)
        if not isinstance(stated, str) or stated not in TAGGED[kind] or stated == "tag":
            return False
        return _has_fields(value, f"{tag}:str {TAGGED[kind][stated]}")
    return _has_fields(value, STRUCTS[kind])


def _has_fields(value: dict[str, Any], fields: str) -> bool:
    # A list of strings has blanks in its parentheses.
    known = [each.partition(":") for each in re.split(r" (?![^(]*\))", fields) if each]
    types = {name.rstrip("?"): kind for name, _, kind in known}
    required = {name for name, _, _ in known if not name.endswith("?")}
    if not required <= value.keys() <= types.keys():
        return False
    return all(fits(each, types[name]) for name, each in value.items())


def _is_misspelled(value: Any) -> bool:
    if isinstance(value, dict):
        if any(not value.get(name, 1) for name in EMPTY_BY_DEFAULT):
            return True
        if "relations" in value and "specialized" not in value:
            return True
        if "triple" in value and value.get("devices", 2) == 1:
            return True
        return any(map(_is_misspelled, value.values()))
    return isinstance(value, list) and any(map(_is_misspelled, value))


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def foreign(data: bytes, marks: int, too_many: str = "E111") -> Any:
    """Return JSON in any spelling, with each key once in an object."""
    if sum(map(data.count, b",:[{")) > marks:
        raise Rejected(too_many, "marks")
    try:
        text = data.decode("utf-8")
        if text.startswith("\ufeff"):
            raise ValueError("byte order mark")
        return json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise Rejected("E106", str(error)) from error


def canonical(data: bytes, kind: str) -> Any:
    """Return a document in its one spelling."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
        good = fits(value, kind)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        spelled = text.encode()
    except (ValueError, RecursionError) as error:
        raise Rejected("E101", str(error)) from error
    if not good:
        raise Rejected("E101", kind)
    if spelled != data or _is_misspelled(value):
        raise Rejected("E102", kind)
    return value
