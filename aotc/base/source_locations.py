"""Where in the program's sources a function begins, what of it was not traced, and what decides by
a size.

Numbers of lines change with every comment, and what was compiled does not: they are no part of the
evidence, which the root digest covers. They stand in the signed provenance of a build, at the
source file that they count in, beside its digest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aotc.base.evidence import FunctionCoverage


class FunctionLines(Struct, frozen=True, kw_only=True):
    """A function of the evidence. line: where it begins, with its decorators.  missed: lines with
    code that did not run, as ranges such as "12" and "14-18".
    """

    name: str
    line: int
    missed: tuple[str, ...] = ()


class Decision(Struct, frozen=True):
    """A line of the program that decides by a size."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class EntryPointLines(Struct, frozen=True):
    """Where an entry point's functions and decisions are in the source.

    functions: by file, in the order of the evidence.  decisions: by dimension.  layers: by model
    file, to the lines of the source that the model was written in.
    """

    functions: dict[str, tuple[FunctionLines, ...]] = {}
    decisions: dict[str, Decision] = {}
    layers: dict[str, dict[str, tuple[str, ...]]] = {}

    def of_file(
        self, file: str, known: Collection[FunctionCoverage]
    ) -> tuple[FunctionLines | None, ...]:
        """The lines of the functions that the evidence has of a file, None where there are none:
        whoever states them may state those of another build.
        """
        found = self.functions.get(file, ())
        if [each.name for each in found] != [each.name for each in known]:
            return (None,) * len(known)
        return found


class _Annotations(Struct, frozen=True):
    traced: dict[str, tuple[FunctionLines, ...]] = {}
    decisions: dict[str, dict[str, int]] = {}
    layers: dict[str, dict[str, tuple[str, ...]]] = {}


class _File(Struct, frozen=True):
    name: str = ""
    annotations: msgspec.Raw = msgspec.Raw(b"{}")


class _Definition(Struct, frozen=True):
    resolvedDependencies: tuple[_File, ...] = ()


class _Predicate(Struct, frozen=True):
    buildDefinition: _Definition = _Definition()


def stated_at(lines: Mapping[str, EntryPointLines], file: str) -> dict[str, Any]:
    """What provenance says at a source file; nothing of a file in which nothing ran. lines: by
    entry point.
    """
    traced = {name: each.functions[file] for name, each in lines.items() if file in each.functions}
    decisions = {
        name: found
        for name, each in lines.items()
        if (found := {d: at.line for d, at in each.decisions.items() if at.file == file})
    }
    layers = {name: each.layers[file] for name, each in lines.items() if file in each.layers}
    known: dict[str, Any] = {
        "traced": msgspec.to_builtins(traced),
        "decisions": decisions,
        "layers": msgspec.to_builtins(layers),
    }
    return {key: value for key, value in known.items() if value}


def read_locations(predicate: Any) -> dict[str, EntryPointLines]:
    """What a provenance says, by entry point; nothing of what has another shape, which is anybody's
    JSON.
    """
    try:
        stated = msgspec.json.decode(msgspec.json.encode(predicate), type=_Predicate)
    except msgspec.MsgspecError:
        return {}
    functions: dict[str, dict[str, tuple[FunctionLines, ...]]] = {}
    decisions: dict[str, dict[str, Decision]] = {}
    layers: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for file in stated.buildDefinition.resolvedDependencies:
        try:
            read = msgspec.json.decode(file.annotations, type=_Annotations)
        except msgspec.MsgspecError:
            continue
        for name, each in read.traced.items():
            functions.setdefault(name, {})[file.name] = each
        for name, lines in read.decisions.items():
            found = {dimension: Decision(file.name, line) for dimension, line in lines.items()}
            decisions.setdefault(name, {}).update(found)
        for name, of_layers in read.layers.items():
            layers.setdefault(name, {})[file.name] = of_layers
    return {
        name: EntryPointLines(
            functions.get(name, {}), decisions.get(name, {}), layers.get(name, {})
        )
        for name in sorted(functions.keys() | decisions.keys() | layers.keys())
    }
