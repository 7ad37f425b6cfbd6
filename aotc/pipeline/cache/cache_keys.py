"""Tasks of a build and their keys: named parts, so that two keys can be compared for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from aotc_runtime.base import canonical_json
from aotc_runtime.base.digest import is_digest, sha256

SCHEMA = "1"
"""Version of what entries hold. It is a part of every key, so that older entries are not found."""

FILES = ("file ", "source file ")
"""Prefixes of parts that are files. If such a part is gone, the program no longer reads the file,
which may still exist."""

CHANGED = "file of package "
"""Prefix of parts that are files of a package, changed after it was installed."""

type Parts = Mapping[str, str]
"""What a result depends on: names for people ("source file model.py"), to a digest or to a value
short enough to show ("0.12.0")."""


class Kind(StrEnum):
    """The tasks of a build, in their order."""

    CAPTURE = "capture"
    REFERENCE = "reference"
    EXECUTABLE = "executable"
    PARITY = "parity"
    PACK = "pack"


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a build. of: what it makes, for people and not in the key, such as
    "predict[batch=8] for native".  parts: everything that its result depends on.
    """

    kind: Kind
    of: str
    parts: Parts

    @property
    def name(self) -> str:
        """What the key stands for, in all builds: "executable predict[batch=8] for native"."""
        return f"{self.kind} {self.of}".rstrip()

    @property
    def key(self) -> str:
        """The digest of the canonical bytes of everything the result depends on."""
        return key_of(self.kind, self.parts)


def key_of(kind: str, parts: Parts) -> str:
    """A key of the cache: "sha256:…"."""
    return sha256(canonical_json.encode({"kind": kind, "parts": dict(parts), "schema": SCHEMA}))


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a key that has changed. before, now: None where there was, or is, no such part."""

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
    """The parts that differ, sorted by name. For a package of another version only the version, not
    the digest of its files.
    """
    differ = [part for part in before.keys() | now.keys() if before.get(part) != now.get(part)]
    for part in sorted(differ):
        if part.removeprefix("files of ") == part or part.removeprefix("files of ") not in differ:
            yield Change(part, before.get(part), now.get(part))
