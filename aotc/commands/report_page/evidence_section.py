"""What happened in every stage: what was traced, what the compiler did, and who does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import UNSET

from aotc.base.evidence import Coverage, ExecutableEvidence, FunctionCoverage
from aotc.base.source_locations import EntryPointLines, FunctionLines
from aotc.bundle.read.bundle_review import Review
from aotc.commands.report_page.executables_section import place
from aotc.commands.report_page.page_parts import (
    Cell,
    Facts,
    Folded,
    Mark,
    Part,
    Section,
    Text,
    alike,
    bars,
    counts_text,
    listed,
    several,
    table,
)  # fmt: skip
from aotc.report.report_text import size

KERNELS_MAX = 40
"""Functions of machine code that are listed, the largest, for executables that are alike."""


def capture(review: Review) -> Section:
    """What of the program went into the modules."""
    return Section("capture", "Capture", tuple(_capture(review)))


def _capture(review: Review) -> Iterator[Part]:
    known = [
        (name, coverage)
        for target in review.targets.values()
        for name in target.manifest.entry_points
        if (coverage := target.coverage(name)) is not None
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
        (listed(dict.fromkeys(names)), coverage, lines)
        for names, (coverage, lines) in alike(located)
        if coverage.files
    ]
    yield from bars(
        "Lines of the program, in functions that ran",
        [(name, {"traced": c.traced, "not traced": c.lines - c.traced}) for name, c, _ in groups],
        in_bytes=False,
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
        for f, at in zip(functions, lines.of_file(file, functions), strict=True):
            line = str(at.line) if at else "-"
            yield f.name, entry_point, file, line, str(f.lines), str(f.traced), _missed(f, at)


def _missed(function: FunctionCoverage, at: FunctionLines | None) -> Cell:
    if function.traced == function.lines:
        return "-"
    return Mark(listed(at.missed) if at else f"{function.lines - function.traced} lines", "bad")


def placement(review: Review) -> Section:
    """Who does which part of the work."""
    return Section("placement", "Placement of the work", tuple(_placement(review)))


def _placement(review: Review) -> Iterator[Part]:
    compiled = _compiled(review)
    if not compiled:
        yield Text("Nothing is known of who does the work: there is no evidence of it.", "bad")
        return
    yield Text(
        "XLA: code generated for this program. XLA runtime: copies, loops, branches, sorts. "
        "Everything else is a library's, or a custom call. A step inside a loop counts once."
    )
    names = sorted({p.name for _, told in compiled for p in told.placement}, key=_generated_first)
    steps = [
        (name, {p.name: sum(p.steps.values()) for p in told.placement}) for name, told in compiled
    ]
    drawn = [(name, {place: counts.get(place, 0) for place in names}) for name, counts in steps]
    yield from bars("Steps of an executable, by who does them", drawn, in_bytes=False)
    yield table(
        "Partition map",
        ("Executable", *names, "Custom calls by target"),
        [
            (name, *_partition(told, names), counts_text(told.optimized.custom_calls))
            for name, told in compiled
        ],
    )


def _generated_first(name: str) -> tuple[bool, str]:
    return (not name.startswith("XLA"), name)


def _partition(told: ExecutableEvidence, names: list[str]) -> list[str]:
    steps = {place.name: place.steps for place in told.placement}
    return [counts_text(steps.get(name, {})) for name in names]


def compilation(review: Review) -> Section:
    """Operations, passes, the optimized module, buffers and machine code."""
    return Section("compilation", "Compilation", tuple(_compilation(review)))


def _compilation(review: Review) -> Iterator[Part]:
    compiled = _compiled(review)
    if not compiled:
        yield Text("The build of this bundle left no evidence of how it was compiled.", "bad")
        return
    yield Text("Executables of which the same is known are told together.")
    yield Folded("Operations of the modules, as traced", tuple(_operations(compiled)))
    yield Folded("Options and passes", tuple(_grouped(compiled, _passes)))
    yield Folded("Modules after optimization", tuple(_optimized(compiled)))
    yield Folded("Memory plan", tuple(_plans(compiled)))
    yield Folded("Generated machine code", tuple(_grouped(compiled, _kernels)))


type Compiled = list[tuple[str, ExecutableEvidence]]


def _compiled(review: Review) -> Compiled:
    return [
        (place(e, review), e.evidence.compiled)
        for e in review.executables()
        if e.evidence is not None and e.evidence.compiled is not UNSET
    ]


def _operations(compiled: Compiled) -> Iterator[Part]:
    for names, counts in alike((name, told.operations) for name, told in compiled):
        yield from bars(
            f"Operations of {several(names)}",
            [(operation, {"operations": n}) for operation, n in _most_first(counts)],
            in_bytes=False,
        )


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _grouped(
    compiled: Compiled, parts: Callable[[str, ExecutableEvidence], tuple[Part, ...]]
) -> Iterator[Part]:
    """parts: of an executable, titled by the text they are given."""
    for names, _ in alike((name, parts("", told)) for name, told in compiled):
        first = next(told for name, told in compiled if name == names[0])
        yield from parts(several(names), first)


def _passes(title: str, told: ExecutableEvidence) -> tuple[Part, ...]:
    record = told.compilation
    changed = "not told" if record.debug_options is None else str(record.debug_options)
    options = listed(f"{name}={value}" for name, value in record.options.items())
    facts = Facts((("options", options), ("XLA debug options that are not its default", changed)))
    columns = ("Pipeline", ">Passes", ">Changed the module", "Passes that did")
    rows = [
        (p.name, str(p.passes), str(len(p.changed)), listed(dict.fromkeys(p.changed)))
        for p in record.pipelines
    ]
    passes = table(f"Pass pipelines of {title}", columns, rows)
    return (Folded(title, (facts, *([passes] if rows else []))),)


def _optimized(compiled: Compiled) -> Iterator[Part]:
    yield table(
        "Instructions of the optimized modules",
        ("Executable", "Fused kernels", "Instructions"),
        [
            (name, counts_text(told.optimized.fusions), counts_text(told.optimized.instructions))
            for name, told in compiled
        ],
    )


def _plans(compiled: Compiled) -> Iterator[Part]:
    purposes = list(dict.fromkeys(p for _, told in compiled for p in told.plan.allocations))
    rows = []
    for name, told in compiled:
        buffers = [told.plan.allocations.get(purpose) for purpose in purposes]
        cells = [f"{size(b.size_bytes)} in {b.count}" if b else "-" for b in buffers]
        shared = f"{told.plan.values:,}", size(told.plan.value_bytes)
        rows.append((name, *cells, *shared))
    yield table(
        "Buffers, as XLA assigned them",
        ("Executable", *(f">{p}" for p in purposes), ">Values in temporaries", ">Unshared"),
        rows,
    )


def _kernels(title: str, told: ExecutableEvidence) -> tuple[Part, ...]:
    if not told.kernels:
        return (Text(f"{title}: the backend does not tell of its functions."),)
    rows = [(symbol, {"machine code": n}) for symbol, n in _most_first(told.kernels)]
    caption = f"{len(rows):,} functions of {title}"
    return (Folded(title, tuple(bars(caption, rows, in_bytes=True, most=KERNELS_MAX))),)
