"""Tasks of a build and their keys: named parts, so that two keys can be compared for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from aotc_runtime import canonical
from aotc_runtime.digest import is_digest, sha256

SCHEMA = "1"
"""Of what entries hold; a change of it makes every older entry one of another key."""

FILES = ("file ", "source file ")
"""What parts that are files begin with. One that goes may be there still: nobody reads it now."""

CHANGED = "file of package "
"""What parts begin with that are files of packages, changed after their installation."""

type Parts = Mapping[str, str]
"""What a result depends on: a name for people ("source file model.py") to a digest, or to a value
that is short enough to show ("0.12.0").
"""


class Kind(StrEnum):
    """The tasks of a build, in their order."""

    CAPTURE = "capture"
    REFERENCE = "reference"
    EXECUTABLE = "executable"
    PARITY = "parity"
    PACK = "pack"


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a build. of: what it makes, for people, such as "predict[batch=8] for native"; it
    is no part of the key.
    """

    kind: Kind
    of: str
    parts: Parts

    @property
    def name(self) -> str:
        """The same in every build: "executable predict[batch=8] for native"."""
        return f"{self.kind} {self.of}".rstrip()

    @property
    def key(self) -> str:
        """The digest of the canonical bytes of everything the result depends on."""
        return key_of(self.kind, self.parts)


def key_of(kind: str, parts: Parts) -> str:
    """A key of the cache: "sha256:…"."""
    return sha256(canonical.encode({"kind": kind, "parts": dict(parts), "schema": SCHEMA}))


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a key that is not what it was; None where there was or is none."""

    part: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        is_file = self.part.startswith(FILES) and not self.part.startswith(CHANGED)
        if is_file and None in (self.before, self.now):
            return f"{self.part} is {'now' if self.before is None else 'no longer'} read"
        if self.before is None:
            return f"{self.part} added" + _shown(": ", self.now)
        if self.now is None:
            return f"{self.part} removed" + _shown(": ", self.before)
        if is_digest(self.before) or is_digest(self.now):
            return f"{self.part} changed"
        return f"{self.part} {self.before} -> {self.now}"


def _shown(before: str, value: str | None) -> str:
    return "" if not value or is_digest(value) else before + value


def changes(before: Parts, now: Parts) -> Iterator[Change]:
    """The parts that differ, sorted by name; of a package that has another version, only that."""
    differ = [part for part in before.keys() | now.keys() if before.get(part) != now.get(part)]
    for part in sorted(differ):
        if part.removeprefix("files of ") == part or part.removeprefix("files of ") not in differ:
            yield Change(part, before.get(part), now.get(part))
