"""What the process that imports the user's function is asked, and what it answers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Job(Struct, frozen=True):
    """function, example: "package.module:function"; example returns the arguments of a call.
    likes: functions that return an input each.  is_file: whether the function is a model file.
    """

    root: str
    function: str
    example: str | None
    likes: tuple[str, ...] = ()
    is_file: bool = False


class SeenArray(Struct, frozen=True, tag="array"):
    """low, high: the numbers of an array of integers.  original: its dtype in the example, where
    jax with 64-bit types off would narrow it to `dtype`.
    """

    shape: list[int]
    dtype: str
    bytes: int
    low: int | None = None
    high: int | None = None
    original: str | None = None


class SeenDict(Struct, frozen=True, tag="dict"):
    items: dict[str, Seen]


class SeenList(Struct, frozen=True, tag="list"):
    items: list[Seen]


class SeenPlain(Struct, frozen=True, tag="plain"):
    """A value that TOML can write."""

    value: Any


class SeenOther(Struct, frozen=True, tag="other"):
    """path: of the part that is the reason, below the parameter.  kind: what it is."""

    path: str
    kind: str


type Seen = SeenArray | SeenDict | SeenList | SeenPlain | SeenOther


class Parameter(Struct, frozen=True):
    """annotation: `DTYPE[AXES]` as a jaxtyping annotation says it, if there is one.  example: its
    value in the example call, if it has one.
    """

    name: str
    has_default: bool
    annotation: str | None = None
    example: Seen | None = None


class Answer(Struct, frozen=True):
    """parameters: of the function.  enable_x64: whether
    the program itself, when imported, turned 64-bit types on.  takes_any: "*args" and "**kwargs" of
    the function, to which a manifest passes nothing.  needed: the names that each function of
    `likes` has to be called with.  ranges: of sizes that a model file states, by their names; None
    for an open end.  sizes: of these, those that alone a model file has the program for.  donate:
    parameters that a model changes.
    """

    parameters: list[Parameter]
    enable_x64: bool
    takes_any: list[str] = []
    needed: dict[str, list[str]] = {}
    ranges: dict[str, tuple[int | None, int | None]] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    donate: list[str] = []
