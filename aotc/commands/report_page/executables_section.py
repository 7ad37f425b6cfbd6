"""The figures of every executable: size, memory, cost, parity, what was traced, libraries."""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from aotc.base.evidence import Coverage, FunctionCoverage
from aotc.base.source_locations import EntryPointLines, FunctionLines
from aotc.bundle.read.bundle_facts import NUMBERS, numbers_of
from aotc.bundle.read.bundle_review import Review, ReviewedExecutable
from aotc.commands.report_page.page_parts import (
    Cell,
    Folded,
    Group,
    Mark,
    Part,
    Text,
    alike,
    amount,
    comma_list,
    counts_text,
    short,
    table,
)
from aotc.report.report_text import engine_lines, trials_text, tuned_text
from aotc_runtime.base import ulps
from aotc_runtime.schema.bundle_manifest import ParityRan


def place(executable: ReviewedExecutable, review: Review) -> str:
    """predict[batch=8]; with its target if there are several."""
    if len(review.targets) == 1:
        return executable.label
    return f"{executable.label} for {executable.target}"


def profiles(review: Review) -> Iterator[Part]:
    """Yield sizes, memory and cost."""
    executables = list(review.executables())
    named = partial(place, review=review)
    for caption, columns in TABLES.items():
        titles = [">" + name.replace("_", " ") for name in columns]
        rows = [(named(e), *_numbers(e, columns)) for e in executables]
        yield table(caption, ("Executable", *titles), rows)
    meanings = [(n.replace("_", " "), NUMBERS[n][1]) for names in TABLES.values() for n in names]
    listing = table("Columns", ("Column", "Meaning"), meanings)
    yield Folded("What the columns mean", (listing,))
    for target in review.targets.values():
        if target.evidence is not None and target.evidence.chosen is not UNSET:
            choice = {"engine_choice": msgspec.to_builtins(target.evidence.chosen)}
            parts = tuple(map(Text, engine_lines(choice)))
            yield Group(f"Engines of {target.manifest.target.name}", parts)
    tuned = [(named(e), e.record.tuned) for e in executables if e.record.tuned is not UNSET]
    if tuned:
        rows = [(name, tuned_text(msgspec.to_builtins(each))) for name, each in tuned]
        yield table("Tuning", ("Executable", "Choice"), rows)


TABLES = {
    "Size and memory": ("executable_size", "module_size", "code", "call_memory", "temp_memory"),
    "Cost and steps": (
        *("flops", "transcendentals", "bytes_accessed"),
        *("kernels", "library_steps", "custom_calls", "fusions"),
    ),
}
"""What of `NUMBERS` stands in which table; the rest stands in others."""


def _numbers(executable: ReviewedExecutable, columns: Sequence[str]) -> Iterator[str]:
    found = numbers_of(executable)
    for name in columns:
        yield amount(found[name], NUMBERS[name][0] == "bytes") if name in found else "-"


def parity(review: Review) -> Iterator[Part]:
    """Yield the parity that the build measured against plain JAX."""
    yield Text(
        "The build ran every executable that its host could run, in a process without jax, and "
        "compared all results with plain JAX. One beyond its tolerance fails the build. ulp: how "
        "many floats lie between the two numbers."
    )
    not_run = sum(not isinstance(e.record.parity, ParityRan) for e in review.executables())
    if not_run:
        yield Text(f"Not run by the build, and so not proven by it: {not_run}.", "bad")
    recorded = dict.fromkeys(
        name
        for target in review.targets.values()
        for name, known in target.entry_points.items()
        if known.reference
    )
    if recorded:
        yield Text(
            "Compared with results that were recorded elsewhere, and not computed by plain JAX in "
            f"the build: {', '.join(recorded)}.",
            "bad",
        )
    columns = (
        "Executable", "Compared", ">Max abs", ">Max rel", ">ulp", ">Numbers", "Worst output",
        "Tolerance",
    )  # fmt: skip
    yield table(
        "Largest differences", columns, [_row(place(e, review), e) for e in review.executables()]
    )
    tried = [
        (place(e, review), trials_text(msgspec.to_builtins(e.evidence.trials)))
        for e in review.executables()
        if e.evidence is not None and e.evidence.trials is not UNSET
    ]
    if tried:
        yield table("Tried with other inputs than the fixture's", ("Executable", "Inputs"), tried)


def _row(name: str, executable: ReviewedExecutable) -> tuple[Cell, ...]:
    tolerance = executable.description.tolerance
    allowed = f"rtol {tolerance.rtol}, atol {tolerance.atol}"
    parity = executable.record.parity
    if not isinstance(parity, ParityRan):
        return name, Mark(f"not run: {parity.reason}", "bad"), "-", "-", "-", "-", "-", allowed
    errors = short(parity.max_abs), short(parity.max_rel), ulps(parity.ulp_max)
    numbers = *errors, f"{parity.elements:,}"
    return name, Mark("ran at build", "good"), *numbers, parity.worst or "result", allowed


def capture(review: Review) -> Iterator[Part]:
    """Yield the parts of the program that went into the modules."""
    known = [
        (name, evidence.coverage)
        for target in review.targets.values()
        for name, evidence in target.entry_points.items()
    ]
    if not known:
        yield Text("The build of this bundle left no evidence of what was traced.", "bad")
        return
    yield Text(
        "A line that did not run while an entry point was traced is not in its module: Python "
        "decided against it. Functions of installed packages are not counted."
    )
    stated = review.lines()
    located = [(name, (coverage, stated.get(name, EntryPointLines()))) for name, coverage in known]
    groups = [
        (comma_list(dict.fromkeys(names)), coverage, lines)
        for names, (coverage, lines) in alike(located)
        if coverage.files
    ]
    yield table(
        "Lines of the program, in functions that ran",
        ("Entry point", ">Lines", ">Traced"),
        [(name, f"{c.lines:,}", f"{c.traced:,}") for name, c, _ in groups],
    )
    if not any(lines.functions for _, _, lines in groups):
        yield Text("No provenance of a build says at which lines these functions stand.")
    columns = ("Function", "Entry point", "File", ">Line", ">Lines", ">Traced", "Not traced")
    rows = [row for group in groups for row in _functions(*group)]
    yield table("Functions of the program", columns, rows)
    flow = ("Executable", ">Equations", ">Conditionals", ">Branches", ">While loops", ">Scans")
    yield table(
        "Control flow that is left to run time, all of it traced",
        flow,
        [
            (
                place(e, review),
                *map(str, (f.equations, f.conditionals, f.branches, f.whiles, f.scans)),
            )
            for e in review.executables()
            if e.evidence is not None and (f := e.evidence.control_flow)
        ],
    )


def _functions(
    entry_point: str, coverage: Coverage, lines: EntryPointLines
) -> Iterator[tuple[Cell, ...]]:
    for file, functions in coverage.files.items():
        for f, at in zip(functions, lines.lines_in(file, functions), strict=True):
            line = str(at.line) if at else "-"
            yield f.name, entry_point, file, line, str(f.lines), str(f.traced), _missed_cell(f, at)


def _missed_cell(function: FunctionCoverage, at: FunctionLines | None) -> Cell:
    if function.traced == function.lines:
        return "-"
    return Mark(comma_list(at.missed) if at else f"{function.lines - function.traced} lines", "bad")


def placement(review: Review) -> Iterator[Part]:
    """Yield the share of the work that each library or kernel does."""
    compiled = [
        (place(e, review), e.evidence.compiled)
        for e in review.executables()
        if e.evidence is not None and e.evidence.compiled is not UNSET
    ]
    if not compiled:
        yield Text("The bundle has no evidence of the libraries that do the work.", "bad")
        return
    yield Text(
        "XLA: code generated for this program. XLA runtime: copies, loops, branches, sorts. "
        "Everything else is a library's, or a custom call. A step inside a loop counts once."
    )
    every = {place.name for _, told in compiled for place in told.placement}
    names = sorted(every, key=lambda name: (not name.startswith("XLA"), name))
    yield table(
        "Partition map",
        ("Executable", *names, "Custom calls by target"),
        [
            (
                name,
                *(counts_text(steps.get(each, {})) for each in names),
                counts_text(told.optimized.custom_calls),
            )
            for name, told in compiled
            for steps in ({place.name: place.steps for place in told.placement},)
        ],
    )
