"""Dimensions: which sizes are accepted, and which of them are compiled for.

    profiles = [1, 8, 64]
    profiles = "powers_of_two"
    profiles = { multiples_of = 128 }

Generated profiles always hold the largest accepted size, so that every other one can be padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.config.fields import SIZE_EXPECTED
from aotc.config.problem import Problem, duplicates, show, spell, unknown_key
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.manifest import Dimension
from aotc_runtime.words import closest

POWERS_OF_TWO = "powers_of_two"
MULTIPLES_OF = "multiples_of"

PROFILES_MAX = 1024
"""Executables of one entry point and target; a generated list beyond that was a mistake."""

_EXPECTED = f'an array of sizes, "{POWERS_OF_TWO}" or {{ {MULTIPLES_OF} = 128 }}'


@dataclass(frozen=True, slots=True)
class DimensionSpec:
    """accepted: the sizes that calls may have.  profiles: sizes compiled for, sorted; empty where
    every entry point lists profiles of its own.
    """

    accepted: Dimension
    profiles: tuple[int, ...]


def is_size(value: object) -> bool:
    """An integer of at least 1, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def accepted_by(dimension: Mapping[str, Any]) -> Dimension | None:
    """What a `[dimensions.NAME]` table accepts; None if that cannot be told, or is nothing."""
    ends, step = dimension.get("range"), dimension.get("multiple_of", 1)
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(is_size, [*ends, step])):
        return None
    accepted = _dimension(ends[0], ends[1], step)
    return None if accepted.is_empty else accepted


def _dimension(minimum: int, maximum: int, multiple_of: int) -> Dimension:
    return Dimension(minimum=minimum, maximum=maximum, multiple_of=multiple_of)


def sizes_of(raw: Any, accepted: Dimension) -> tuple[int, ...]:
    """The sizes that a value of `profiles` without problems means, sorted."""
    if raw is None:
        return ()
    if isinstance(raw, list):
        return tuple(sorted(raw))
    return tuple(sorted({*_generated(raw, accepted), accepted.largest}))


def check_range(dimension: Mapping[str, Any], path: KeyPath) -> Iterator[Problem]:
    """Ends the right way round, with an accepted size between them."""
    ends = dimension.get("range")
    ends = ends if isinstance(ends, list) else []
    whole = [end for end in ends if isinstance(end, int) and not isinstance(end, bool)]
    if len(whole) != 2:
        return
    low, high = whole
    step = dimension.get("multiple_of", 1)
    if low > high:
        found = f"[{spell(low)}, {spell(high)}]"
        path = (*path, "range")
        yield Problem("AOTC-E805", path, "[smallest, largest]", found, "swap the two")
    elif is_size(low) and is_size(step) and _dimension(low, high, step).is_empty:
        yield Problem(
            code="AOTC-E805",
            path=(*path, "multiple_of"),
            expected=f"a number with a multiple within range = [{low}, {high}]",
            found=spell(step),
            hint="widen the range, or choose a smaller number",
        )


def check_sizes(raw: Any, path: KeyPath, accepted: Dimension | None) -> Iterator[Problem]:
    """What is wrong with a value of `profiles`. accepted: None if that cannot be told."""
    if isinstance(raw, list):
        yield from _check_list(raw, path, accepted)
    elif isinstance(raw, dict):
        yield from _check_rule(raw, path, accepted)
    elif raw != POWERS_OF_TWO:
        rules = [f'"{POWERS_OF_TWO}"', f"{{ {MULTIPLES_OF} = 128 }}"]
        close = closest(raw, (POWERS_OF_TWO, MULTIPLES_OF))
        meant = rules[close == MULTIPLES_OF]
        hint = f"did you mean {meant}?" if close else "name the sizes to compile for, in brackets"
        yield Problem("AOTC-E805", path, _EXPECTED, show(raw), hint)
    elif accepted is not None:
        yield from _check_count(raw, path, accepted)


def _check_list(raw: list[Any], path: KeyPath, accepted: Dimension | None) -> Iterator[Problem]:
    if not raw:
        hint = "name the sizes to compile for"
        yield Problem("AOTC-E805", path, "at least one size", show(raw), hint)
    yield from duplicates(path, raw)
    for index, size in enumerate(raw):
        yield from check_size(size, (*path, index), accepted, "remove the profile")


def check_size(
    size: Any, path: KeyPath, accepted: Dimension | None, otherwise: str
) -> Iterator[Problem]:
    """What is wrong with one size. otherwise: what to do but change what is accepted."""
    if isinstance(size, bool) or not isinstance(size, int):
        hint = "write a whole number without quotes"
        yield Problem("AOTC-E805", path, "an integer", show(size), hint)
    elif size < 1:
        yield Problem("AOTC-E805", path, SIZE_EXPECTED, show(size), "sizes start at 1")
    elif accepted is not None and not accepted.minimum <= size <= accepted.maximum:
        expected = f"a size within range = [{accepted.minimum}, {accepted.maximum}]"
        hint = f"widen the range, or {otherwise}"
        yield Problem("AOTC-E805", path, expected, spell(size), hint)
    elif accepted is not None and size not in accepted:
        expected = f"a multiple of multiple_of = {accepted.multiple_of}"
        yield Problem("AOTC-E805", path, expected, spell(size), f"round it, or {otherwise}")


def _check_rule(
    raw: Mapping[str, Any], path: KeyPath, accepted: Dimension | None
) -> Iterator[Problem]:
    yield from (unknown_key((*path, key), (MULTIPLES_OF,)) for key in raw if key != MULTIPLES_OF)
    at = (*path, MULTIPLES_OF)
    if MULTIPLES_OF not in raw:
        found, hint = "no such key", f"write {{ {MULTIPLES_OF} = 128 }}"
        yield Problem("AOTC-E804", at, f"the key {MULTIPLES_OF}", found, hint)
        return
    step = raw[MULTIPLES_OF]
    problems = list(check_size(step, at, None, ""))
    yield from problems
    if problems or accepted is None:
        return
    if step % accepted.multiple_of:
        expected = f"a multiple of multiple_of = {accepted.multiple_of}"
        yield Problem("AOTC-E805", at, expected, spell(step), "no call may have other sizes")
    else:
        yield from _check_count(raw, at, accepted)


def _check_count(raw: Any, path: KeyPath, accepted: Dimension) -> Iterator[Problem]:
    for number, _ in enumerate(_generated(raw, accepted)):
        if number >= PROFILES_MAX:
            yield Problem(
                code="AOTC-E805",
                path=path,
                expected=f"at most {PROFILES_MAX} profiles",
                found=f"more, within range = [{accepted.minimum}, {accepted.maximum}]",
                hint="narrow the range, or take larger steps",
            )
            return


def _generated(raw: Any, accepted: Dimension) -> Iterator[int]:
    """Sizes by a rule, in order and one at a time: there may be far too many."""
    if isinstance(raw, dict):
        step = raw[MULTIPLES_OF]
        yield from range(-(-accepted.minimum // step) * step, accepted.maximum + 1, step)
        return
    size = accepted.multiple_of
    while size <= accepted.maximum:
        if size in accepted:
            yield size
        size *= 2
