"""What a drafted manifest says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrayInput:
    """low, high: the numbers its fixtures are drawn from, of an array of integers. guessed: that
    nobody said so.
    """

    shape: tuple[int | str, ...]
    dtype: str
    low: int | None = None
    high: int | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class LikeInput:
    """A structure that a function returns. sizes: dimensions that it takes by their names."""

    function: str
    sizes: tuple[str, ...] = ()


type InputDraft = ArrayInput | LikeInput | dict[str, InputDraft] | list[InputDraft]


@dataclass(frozen=True, slots=True)
class DimensionDraft:
    """profiles: sizes, or a rule's name."""

    low: int
    high: int
    profiles: tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class Draft:
    """What the manifest will say. function: or the path of a model file, where is_file.  weights:
    set to file or function.  notes: what its reader should look at.  donate: inputs.
    """

    name: str
    entry_point: str
    function: str
    targets: tuple[str, ...]
    enable_x64: bool
    weights: Mapping[str, str]
    dimensions: Mapping[str, DimensionDraft]
    inputs: Mapping[str, InputDraft]
    static: Mapping[str, Any]
    notes: tuple[str, ...]
    is_file: bool = False
    donate: tuple[str, ...] = ()


def leaves_of(tree: InputDraft, path: str) -> Iterator[tuple[str, ArrayInput]]:
    """Path and array of every leaf that is known here."""
    match tree:
        case ArrayInput():
            yield path, tree
        case dict():
            for key, item in tree.items():
                yield from leaves_of(item, f"{path}/{key}")
        case list():
            for index, item in enumerate(tree):
                yield from leaves_of(item, f"{path}/{index}")
        case LikeInput():
            return
