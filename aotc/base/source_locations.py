"""Source lines of functions, of code that was not traced, and of decisions by size.

Line numbers change with every comment while the compiled code stays the same. So they are not part
of the evidence, which the root digest covers, but of a build's signed provenance, beside the digest
of the source file.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aotc.base.evidence import FunctionCoverage


class FunctionLines(Struct, frozen=True, kw_only=True):
    """A function of the evidence.

    `line` is its first one, decorators included; `missed` has the lines with code that did not run,
    as ranges such as "12" and "14-18".
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
    """Source lines of an entry point's functions and decisions.

    `functions` are by file, in the order of the evidence; `decisions` by dimension; `layers` by
    model file, to the lines of the source that the model was written in. `caught`, which provenance
    lacks, are errors about unknown values that the program handled.
    """

    functions: dict[str, tuple[FunctionLines, ...]] = {}
    decisions: dict[str, Decision] = {}
    layers: dict[str, dict[str, tuple[str, ...]]] = {}
    caught: tuple[str, ...] = ()

    def lines_in(
        self, file: str, known: Collection[FunctionCoverage]
    ) -> tuple[FunctionLines | None, ...]:
        """Return the lines of each function that the evidence has of a file.

        All are None if the provenance lists other functions: it may describe another build.
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


def annotations_of(lines: Mapping[str, EntryPointLines], file: str) -> dict[str, Any]:
    """Return the annotations of a source file in provenance; empty if none of its code ran.

    `lines` are by entry point.
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
    """Read a provenance's annotations by entry point, ignoring those of another shape."""
    try:
        stated = msgspec.json.decode(msgspec.json.encode(predicate), type=_Predicate)
    except msgspec.MsgspecError:
        return {}
    found: defaultdict[str, EntryPointLines] = defaultdict(EntryPointLines)
    for file in stated.buildDefinition.resolvedDependencies:
        try:
            read = msgspec.json.decode(file.annotations, type=_Annotations)
        except msgspec.MsgspecError:
            continue
        for name, each in read.traced.items():
            found[name].functions[file.name] = each
        for name, lines in read.decisions.items():
            for dimension, line in lines.items():
                found[name].decisions[dimension] = Decision(file.name, line)
        for name, of_layers in read.layers.items():
            found[name].layers[file.name] = of_layers
    return dict(sorted(found.items()))
