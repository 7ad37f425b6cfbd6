"""Dimensions: the accepted sizes, and those that are compiled.

    profiles = [1, 8, 64]
    profiles = "powers_of_two"
    profiles = { multiples_of = 128 }
    profiles = "range"

Generated profiles always hold the largest accepted size, so that every other one can be padded.
"range" is one executable for all sizes, compared at some of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, TypeAdapter

from aotc.config.field_types import Arrayed, Distinct, Size, accepting, refusal
from aotc.config.manifest_problem import Problem, spell
from aotc.config.toml_validation import Section
from aotc_runtime.base.suggestions import closest
from aotc_runtime.formats.toml_source import KeyPath
from aotc_runtime.schema.bundle_manifest import Dimension
from aotc_runtime.schema.size_expressions import Relation

POWERS_OF_TWO = "powers_of_two"
MULTIPLES_OF = "multiples_of"
RANGE = "range"

COMPARED = 10
"""Sizes at which the executable of a range is compared: both ends and eight between."""

PROFILES_MAX = 1024
"""Executables of one entry point and target; a longer generated list is a mistake."""

_EXPECTED = f'an array of sizes, "{POWERS_OF_TWO}", "{RANGE}" or {{ {MULTIPLES_OF} = 128 }}'


@dataclass(frozen=True, slots=True)
class MultiplesOf(Section):
    """All multiples of a number."""

    multiples_of: Annotated[Size, Field(description=f"write {{ {MULTIPLES_OF} = 128 }}")]


type Sizes = dict[str, int]
"""A profile: the size of each dimension."""

type Rule = tuple[int, ...] | Literal["powers_of_two", "range"] | MultiplesOf
"""The value of `profiles`: the sizes in the order of the file, or a rule that generates them."""

_LISTED = TypeAdapter[tuple[int, ...]](
    Annotated[
        tuple[Size, ...],
        Arrayed,
        Distinct,
        accepting(bool, "at least one size", "name the sizes to compile for"),
    ],
    config=Section.__pydantic_config__,
)
_MULTIPLES = TypeAdapter(MultiplesOf)


def _rule(raw: object) -> Rule:
    match raw:
        case list():
            return _LISTED.validate_python(raw)
        case dict():
            return _MULTIPLES.validate_python(raw)
        case "powers_of_two" | "range":
            return raw
    close = closest(raw, (POWERS_OF_TWO, MULTIPLES_OF, RANGE))
    meant = f"{{ {MULTIPLES_OF} = 128 }}" if close == MULTIPLES_OF else f'"{close}"'
    hint = f"did you mean `{meant}`?" if close else "name the sizes to compile for, in brackets"
    raise refusal(_EXPECTED, hint)


SizesRule = Annotated[Rule, PlainValidator(_rule)]


@dataclass(frozen=True, slots=True)
class DimensionSpec(Section):
    """`[dimensions.NAME]`: a named size.

    `range` has the smallest and the largest accepted size, and only multiples of `multiple_of` are
    accepted. `rule` has the compiled sizes; None where every entry point lists profiles of its own.
    """

    range: Annotated[
        tuple[Size, ...],
        Arrayed,
        accepting(lambda v: len(v) == 2, "[smallest, largest]", "give both ends"),
        accepting(lambda v: v[0] <= v[1], "[smallest, largest]", "swap the two"),
        Field(examples=["range = [1, 64]"]),
    ]
    rule: Annotated[SizesRule | None, Field(alias="profiles")] = None
    multiple_of: Size = 1

    @property
    def accepted(self) -> Dimension:
        """Return the sizes that calls may have."""
        smallest, largest = self.range
        return Dimension(minimum=smallest, maximum=largest, multiple_of=self.multiple_of)

    @property
    def profiles(self) -> tuple[int, ...]:
        """Return the compiled sizes, sorted."""
        return () if self.rule is None else sizes_of(self.rule, self.accepted)


def sizes_of(rule: Rule, accepted: Dimension) -> tuple[int, ...]:
    """Return the sizes that a valid value of `profiles` means, sorted."""
    if isinstance(rule, tuple):
        return tuple(sorted(rule))
    return tuple(sorted({*_generate_sizes(rule, accepted), accepted.largest}))


def check_range(dimension: DimensionSpec, path: KeyPath) -> Iterator[Problem]:
    """Require an accepted size within the range."""
    if dimension.accepted.is_empty:
        low, high = dimension.range
        yield Problem(
            "AOTC-E805",
            (*path, "multiple_of"),
            "widen the range, or choose a smaller number",
            expected=f"a number with a multiple within range = [{low}, {high}]",
            found=spell(dimension.multiple_of),
        )


def check_sizes(rule: Rule, path: KeyPath, accepted: Dimension | None) -> Iterator[Problem]:
    """Check a value of `profiles`; `accepted` is None if it is not known."""
    if isinstance(rule, tuple):
        for index, size in enumerate(rule):
            yield from check_size(size, (*path, index), accepted, "remove the profile")
    elif accepted is not None:
        path = (*path, MULTIPLES_OF) if isinstance(rule, MultiplesOf) else path
        if isinstance(rule, MultiplesOf) and rule.multiples_of % accepted.multiple_of:
            expected = f"a multiple of multiple_of = {accepted.multiple_of}"
            found, cause = spell(rule.multiples_of), "size-is-not-an-accepted-multiple"
            yield Problem(
                "AOTC-E805", path, "round it", expected=expected, found=found, cause=cause
            )
        else:
            yield from _check_count(rule, path, accepted)


def check_size(
    size: int, path: KeyPath, accepted: Dimension | None, otherwise: str
) -> Iterator[Problem]:
    """Check one size; `otherwise` is the alternative to changing the accepted sizes."""
    if accepted is not None and not accepted.minimum <= size <= accepted.maximum:
        expected = f"[{accepted.minimum}, {accepted.maximum}]"
        hint, cause = f"widen the range, or {otherwise}", "size-is-outside-the-range"
        yield Problem("AOTC-E805", path, hint, expected=expected, found=spell(size), cause=cause)
    elif accepted is not None and size not in accepted:
        expected = f"a multiple of multiple_of = {accepted.multiple_of}"
        hint, cause = f"round it, or {otherwise}", "size-is-not-an-accepted-multiple"
        yield Problem("AOTC-E805", path, hint, expected=expected, found=spell(size), cause=cause)


def _check_count(rule: Rule, path: KeyPath, accepted: Dimension) -> Iterator[Problem]:
    for number, _ in enumerate(_generate_sizes(rule, accepted)):
        if number >= PROFILES_MAX:
            yield Problem(
                "AOTC-E805",
                path,
                "narrow the range, or take larger steps",
                expected=f"at most {PROFILES_MAX}",
                found=f"more within [{accepted.minimum}, {accepted.maximum}]",
                cause="too-many-profiles",
            )
            return


def _generate_sizes(rule: Rule, accepted: Dimension) -> Iterator[int]:
    """Yield sizes by a rule, in order and one at a time: there may be far too many."""
    if isinstance(rule, MultiplesOf):
        step = rule.multiples_of
        yield from range(-(-accepted.minimum // step) * step, accepted.maximum + 1, step)
        return
    if rule == RANGE:
        every = range(accepted.smallest, accepted.largest + 1, accepted.multiple_of)
        yield from thin(every, COMPARED)
        return
    size = accepted.multiple_of
    while size <= accepted.maximum:
        if size in accepted:
            yield size
        size *= 2


def thin[T](values: Sequence[T], most: int) -> Sequence[T]:
    """Return at most `most` of these values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return values
    return [values[(len(values) - 1) * index // (most - 1)] for index in range(most)]


def grid(
    dimensions: Iterable[str], profiles: Mapping[str, Sequence[int]], relations: Iterable[Relation]
) -> tuple[Sizes, ...]:
    """Return all combinations of the dimensions' profiles for which the relations hold, sorted.

    Without dimensions, this is one empty combination.
    """
    names, wanted = sorted(dimensions), tuple(relations)
    points = (
        dict(zip(names, sizes, strict=True)) for sizes in product(*(profiles[n] for n in names))
    )
    return tuple(point for point in points if all(r.holds(point) for r in wanted))
