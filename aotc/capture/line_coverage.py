"""Records the lines of the program that ran while it was traced.

A line that did not run is not in the module: Python decided against it, by a size, a static value
or a dtype. All branches of a `jax.lax.cond` are traced; `control_flow` counts them.
"""

import dis
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import jax
from jax import export

from aotc.base.evidence import ControlFlow, Coverage, FunctionCoverage
from aotc.base.source_locations import FunctionLines
from aotc.capture import jax_private
from aotc.capture.project_files import is_own, name_of, own_names
from aotc.capture.user_exceptions import user_line

_OF_VALUES = (
    jax.errors.JAXTypeError,
    jax.errors.JAXIndexError,
    jax.errors.InconclusiveDimensionOperation,
)
_RESUME_BYTES = 2
"""Size of the RESUME instruction that begins a function's body, on the line of its `def`."""


class Recording:
    """The program's own functions that have run, and their lines.

    `root` is the manifest's folder, `tool` the tool id in `sys.monitoring`. `caught` has errors of
    jax about unknown values that the program itself handled, with their lines; `note` is told of
    them as well, and of questions for the type of a symbolic size.
    """

    def __init__(self, root: Path, tool: int, note: Callable[[FrameType, str], None]) -> None:
        self.caught: dict[str, None] = {}
        self._root, self._tool, self._note = root, tool, note
        # By identity: equal code may come from two files, and one file may be imported twice.
        self._codes: dict[int, CodeType] = {}
        self._lines: dict[int, set[int]] = {}

    def coverage(self) -> tuple[Coverage, dict[str, tuple[FunctionLines, ...]]]:
        """Return the coverage by file so far, and the lines of the same functions.

        Functions without code are left out.
        """
        # Lambdas on one line, and copies of a file imported twice, are counted as one function.
        names = own_names(self._root)
        places: dict[str, dict[tuple[str, int], tuple[set[int], set[int]]]] = {}
        for number, code in self._codes.items():
            file = name_of(code.co_filename, self._root, names)
            if file is not None and (lines := code_lines(code)):
                place = (code.co_qualname, code.co_firstlineno)
                every, ran = places.setdefault(file, {}).setdefault(place, (set(), set()))
                every |= lines
                ran |= lines & self._lines[number]
        files: dict[str, tuple[FunctionCoverage, ...]] = {}
        located: dict[str, tuple[FunctionLines, ...]] = {}
        for file, found in sorted(places.items()):
            functions = [(name, line, *found[name, line]) for name, line in sorted(found)]
            files[file] = tuple(
                FunctionCoverage(name=name, lines=len(lines), traced=len(ran))
                for name, _, lines, ran in functions
            )
            located[file] = tuple(
                FunctionLines(name=name, line=line, missed=tuple(ranges(lines - ran)))
                for name, line, lines, ran in functions
            )
        return Coverage(files=files), located

    def _on_start(self, code: CodeType, offset: int) -> object:
        if not is_own(code.co_filename, self._root):
            return sys.monitoring.DISABLE
        if id(code) not in self._codes:
            self._codes[id(code)], self._lines[id(code)] = code, set()
            events = sys.monitoring.events
            sys.monitoring.set_local_events(self._tool, code, events.LINE | events.CALL)
        return None

    def _on_call(self, code: CodeType, offset: int, function: object, first: object) -> None:
        if function is type and export.is_symbolic_dim(first):
            self._note(sys._getframe(1), f"asks for the type of {first}")

    def _ran(self, code: CodeType, line: int) -> object:
        self._lines[id(code)].add(line)
        return sys.monitoring.DISABLE

    def _on_handled(self, code: CodeType, offset: int, error: BaseException) -> None:
        texts = [each for each in error.args if isinstance(each, str)]
        of_sizes = any("'_DimExpr' object" in text for text in texts)
        is_of_values = of_sizes or isinstance(error, _OF_VALUES)
        if is_of_values and is_own(code.co_filename, self._root):
            self.caught[f"{type(error).__name__} at {user_line(error, self._root)}"] = None
            self._note(sys._getframe(1), f"catches {type(error).__name__}")


@contextmanager
def recording(
    root: Path, note: Callable[[FrameType, str], None] = lambda frame, what: None
) -> Iterator[Recording]:
    """Record while the block runs; recordings cannot be nested.

    jax's caches of traces are off in the block, so that functions traced before run again.
    """
    monitoring, events = sys.monitoring, sys.monitoring.events
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    seen = Recording(root, tool, note)
    monitoring.use_tool_id(tool, "aotc")
    try:
        monitoring.register_callback(tool, events.PY_START, seen._on_start)
        monitoring.register_callback(tool, events.LINE, seen._ran)
        monitoring.register_callback(tool, events.CALL, seen._on_call)
        monitoring.restart_events()
        monitoring.register_callback(tool, events.EXCEPTION_HANDLED, seen._on_handled)
        monitoring.set_events(tool, events.PY_START | events.EXCEPTION_HANDLED)
        with jax_private.without_trace_cache():
            yield seen
    finally:
        monitoring.set_events(tool, events.NO_EVENTS)
        for code in seen._codes.values():
            monitoring.set_local_events(tool, code, events.NO_EVENTS)
        monitoring.free_tool_id(tool)


def code_lines(code: CodeType) -> set[int]:
    """Return the lines with code of a function's body, without its `def` and docstring."""
    resumed = next((i.offset for i in dis.get_instructions(code) if i.opname == "RESUME"), 0)
    return {line for _, end, line in code.co_lines() if line and end > resumed + _RESUME_BYTES}


def ranges(lines: Iterable[int]) -> Iterator[str]:
    """Yield numbers as text, neighbours together: "3", "5-7"."""
    for _, group in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0]):
        found = [line for _, line in group]
        yield str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def layers(jaxpr: Any, known: Collection[str]) -> dict[str, int]:
    """Count the equations of a jaxpr, nested ones included, by the model's layer.

    Layers name the scopes that equations were traced in; a nested one has the names of both.
    """
    found: Counter[str] = Counter()
    for chain in jax_private.equations_within(jaxpr):
        scopes = (filter(known.__contains__, jax_private.scopes(equation)) for equation in chain)
        if name := next(filter(None, map("/".join, scopes)), ""):
            found[name] += 1
    return dict(sorted(found.items()))


def control_flow(jaxpr: Any) -> ControlFlow:
    """Count the control flow that a jaxpr and its nested ones leave to run time."""
    equations = [chain[0] for chain in jax_private.equations_within(jaxpr)]
    names = Counter(equation.primitive.name for equation in equations)
    branches = sum(len(e.params["branches"]) for e in equations if e.primitive.name == "cond")
    return ControlFlow(
        equations=len(equations),
        conditionals=names["cond"],
        branches=branches,
        whiles=names["while"],
        scans=names["scan"],
    )
