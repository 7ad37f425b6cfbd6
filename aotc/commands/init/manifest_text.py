"""A drafted manifest as TOML, with comments where its reader has to decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from aotc.commands.init.draft_types import ArrayInput, Draft, InputDraft, LikeInput, leaves_of
from aotc.config.field_types import is_function_reference

_BARE = re.compile(r"\A[A-Za-z0-9_-]+\Z")


def manifest_text(draft: Draft) -> str:
    """The text of a build manifest of schema 1 (docs/build-manifest.md)."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    yield "schema = 1"
    yield f"name = {_value(draft.name)}"
    yield 'version = "0.1.0"'
    yield f"targets = {_value(list(draft.targets))}"
    if draft.enable_x64:
        yield "enable_x64 = true"
    for name, source in draft.weights.items():
        yield ""
        yield f"[weights.{_key(name)}]"
        kind = "init" if is_function_reference(source) else "source"
        yield f"{kind} = {_value(source)}"
    for name, dimension in draft.dimensions.items():
        yield ""
        yield f"[dimensions.{_key(name)}]"
        yield f"range = [{dimension.low}, {dimension.high}]  # what calls may have"
        profiles = dimension.profiles
        shown = list(profiles) if isinstance(profiles, tuple) else profiles
        yield f"profiles = {_value(shown)}  # compiled; others need out_of_profile, or are refused"
    at = f"entry_points.{_key(draft.entry_point)}"
    yield ""
    yield f"[{at}]"
    yield f"{'source' if draft.is_file else 'function'} = {_value(draft.function)}"
    if draft.weights:
        yield f"bind = {_value({name: name for name in draft.weights})}"
    if draft.static:
        yield f"static = {_value(dict(draft.static))}"
    for name, tree in draft.inputs.items():
        yield f"inputs.{_key(name)} = {_input(tree)}"
    if draft.donate:
        yield f"donate = {_value(list(draft.donate))}  # calls return their new values"
    yield "tolerance = { rtol = 1e-5, atol = 1e-5 }  # against plain JAX"
    leaves = [item for name, tree in draft.inputs.items() for item in leaves_of(tree, name)]
    yield ""
    yield f"[{at}.fixtures]"
    yield "seed = 0  # random inputs; `file` takes recorded ones"
    if draft.is_file:
        yield '# for what its framework gives: file = "inputs.npz", expected = "expected.npz"'
    ranges = {path: [leaf.low, leaf.high] for path, leaf in leaves if leaf.low is not None}
    if ranges:
        guessed = any(leaf.guessed for _, leaf in leaves)
        comment = "  # edit: the numbers that callers pass" if guessed else ""
        yield f"ranges = {_value(ranges)}{comment}"


def _input(tree: InputDraft) -> str:
    match tree:
        case ArrayInput():
            return f"{{ shape = {_value(list(tree.shape))}, dtype = {_value(tree.dtype)} }}"
        case LikeInput():
            sizes = _value({name: name for name in tree.sizes})
            arguments = f", arguments = {sizes}" if tree.sizes else ""
            return f"{{ like = {_value(tree.function)}{arguments} }}"
        case dict():
            return _table((key, _input(item)) for key, item in tree.items())
        case list():
            return f"[{', '.join(_input(item) for item in tree)}]"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # JSON's escapes of a string are TOML's, but for the one character TOML forbids.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            return _table((key, _value(item)) for key, item in value.items())
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
        case _:
            return repr(value)


def _table(items: Iterator[tuple[str, str]]) -> str:
    inside = ", ".join(f"{_key(key)} = {text}" for key, text in items)
    return f"{{ {inside} }}" if inside else "{}"


def _key(name: str) -> str:
    """Quoted where TOML wants it: names of Python may have any letters."""
    return name if _BARE.match(name) else _value(name)
