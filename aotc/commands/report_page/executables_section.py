"""Every executable in numbers: size, memory, cost, and how it compared with plain JAX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from aotc.base.call_memory import call_bytes
from aotc.base.evidence import MeasuredEngine
from aotc.bundle.read.bundle_facts import NUMBERS, numbers_of
from aotc.bundle.read.bundle_review import Review, ReviewedExecutable, ReviewedTarget
from aotc.commands.report_page.page_parts import (
    Cell,
    Folded,
    Mark,
    Part,
    Section,
    Text,
    amount,
    bars,
    listed,
    short,
    table,
)
from aotc.report.report_text import trials_text
from aotc_runtime.schema.bundle_manifest import MeasuredCandidate, ParityRan


def place(executable: ReviewedExecutable, review: Review) -> str:
    """predict[batch=8]; with its target if there are several."""
    if len(review.targets) == 1:
        return executable.label
    return f"{executable.label} for {executable.target}"


def profiles(review: Review) -> Section:
    """Sizes, memory and cost."""
    return Section("profiles", "Profiles: size, memory and cost", tuple(_profiles(review)))


def _profiles(review: Review) -> Iterator[Part]:
    executables = list(review.executables())
    named = partial(place, review=review)
    yield from bars(
        "Memory that one call allocates, on each device",
        [(named(e), call_parts(e)) for e in executables],
        in_bytes=True,
    )
    yield from bars(
        "Size of executables", [(named(e), _size_parts(e)) for e in executables], in_bytes=True
    )
    for caption, columns in TABLES.items():
        titles = [">" + name.replace("_", " ") for name in columns]
        rows = [(named(e), *_numbers(e, columns)) for e in executables]
        yield table(caption, ("Executable", *titles), rows)
    meanings = [(n.replace("_", " "), NUMBERS[n][1]) for names in TABLES.values() for n in names]
    listing = table("Columns", ("Column", "Meaning"), meanings)
    yield Folded("What the columns mean", (listing,))
    engines = [row for target in review.targets.values() for row in _engines(target)]
    if engines:
        yield Text(
            "One engine was chosen for each target, or several (mixed), each for the executables "
            "that it calls fastest. A call: the geometric mean over its executables. Start: of a "
            "process, until the bundle is ready, and its memory by then."
        )
        columns = (
            "Target", "Engine", "Chosen for", ">Call µs", ">Start ms", ">Memory", ">Of the first's",
        )  # fmt: skip
        yield table("Engines", columns, engines)
    tuned = [row for e in executables for row in _tuned(named(e), e)]
    if tuned:
        yield table(
            "Tuning", ("Executable", "Candidate", "Chosen", ">p50 µs", ">Of the default's"), tuned
        )


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


def call_parts(executable: ReviewedExecutable) -> dict[str, int]:
    """Bytes of a call, by what they are for; their sum is
    `aotc.base.call_memory.call_bytes`.
    """
    memory = executable.record.memory
    total = call_bytes(executable.record, executable.description.inputs, executable.mesh)
    outputs = max(0, memory.output_bytes - memory.alias_bytes)
    inputs = max(0, total - memory.temp_bytes - outputs)
    return {"inputs": inputs, "outputs": outputs, "temporaries": memory.temp_bytes}


def _size_parts(executable: ReviewedExecutable) -> dict[str, int]:
    record = executable.record
    code = min(record.memory.code_bytes, record.executable.size)
    return {"object code": code, "everything else": record.executable.size - code}


def _engines(target: ReviewedTarget) -> Iterator[tuple[Cell, ...]]:
    choice = UNSET if target.evidence is None else target.evidence.chosen
    if choice is UNSET:
        return
    name = target.manifest.target.name
    for each in choice.engines:
        chosen = Mark(choice.objective, "good") if each.engine == choice.engine else "no"
        if isinstance(each, MeasuredEngine):
            memory = amount(each.memory_bytes.median, True)
            figures = (each.latency_us.median, each.start_ms.median, memory, each.relative)
            yield name, each.engine, chosen, *figures
        else:
            yield name, f"{each.engine}: {each.reason}", chosen, "-", "-", "-", "-"


def _tuned(name: str, executable: ReviewedExecutable) -> Iterator[tuple[Cell, ...]]:
    tuned = executable.record.tuned
    if tuned is UNSET:
        return
    for candidate in tuned.candidates:
        chosen = Mark("yes", "good") if candidate.name == tuned.choice else "no"
        if isinstance(candidate, MeasuredCandidate):
            yield name, candidate.name, chosen, candidate.p50_us, candidate.relative
        else:
            yield name, f"{candidate.name}: {candidate.reason}", chosen, "-", "-"


def parity(review: Review) -> Section:
    """Against plain JAX, as the build measured it."""
    return Section("parity", "Parity with plain JAX", tuple(_parity(review)))


def _parity(review: Review) -> Iterator[Part]:
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
        for name in target.manifest.entry_points
        if target.is_recorded(name)
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
    errors = short(parity.max_abs), short(parity.max_rel), f"{parity.ulp_max:,}"
    numbers = *errors, f"{parity.elements:,}"
    return name, Mark("ran at build", "good"), *numbers, parity.worst or "result", allowed


def limits(review: Review) -> Section:
    """What gates of a build manifest are about."""
    return Section("gates", "Gates", tuple(_limits(review)))


def _limits(review: Review) -> Iterator[Part]:
    yield Text(
        "Gates stand in the build manifest, whose digest is in the provenance; the bundle does not "
        "repeat them. A build beyond any of them writes no bundle. This is what they would have "
        "been asked about here, at its largest; min_coverage at its smallest."
    )
    yield table("The most that this bundle comes to", ("Gate", "Found", "Where"), _extremes(review))


def _extremes(review: Review) -> Iterator[tuple[str, str, str]]:
    artifacts = {
        name: sum({layer.digest: layer.size for layer in image.layers}.values())
        for name, image in review.contents.targets.items()
    }
    yield _largest("max_artifact_size", artifacts, in_bytes=True)
    executables = {place(e, review): e for e in review.executables()}
    sizes = {name: e.record.executable.size for name, e in executables.items()}
    yield _largest("max_executable_size", sizes, in_bytes=True)
    temporaries = {name: e.record.memory.temp_bytes for name, e in executables.items()}
    yield _largest("max_temp_memory", temporaries, in_bytes=True)
    told = {name: numbers_of(e) for name, e in executables.items()}
    for gate, number in (
        ("max_custom_calls", "custom_calls"),
        ("max_generated_kernels", "kernels"),
    ):
        counts = {name: found[number] for name, found in told.items() if number in found}
        yield _largest(gate, counts, in_bytes=False)
    places: set[str] = set()
    operations: set[str] = set()
    for executable in executables.values():
        if executable.evidence is not None and executable.evidence.compiled is not UNSET:
            places |= {found.name for found in executable.evidence.compiled.placement}
            operations |= executable.evidence.compiled.operations.keys()
    yield "forbid_libraries", listed(sorted(places)), "all executables"
    yield "forbid_operations", listed(sorted(operations)), "all modules"
    yield _least_covered(review)


def _largest(gate: str, numbers: Mapping[str, int], *, in_bytes: bool) -> tuple[str, str, str]:
    if not numbers:
        return gate, "not known", "-"
    where = max(numbers, key=lambda name: numbers[name])
    return gate, amount(numbers[where], in_bytes), where


def _least_covered(review: Review) -> tuple[str, str, str]:
    known = [
        (coverage.shown_part, f"{coverage.traced} of {coverage.lines} lines", name)
        for target in review.targets.values()
        for name in target.manifest.entry_points
        if (coverage := target.coverage(name)) is not None and coverage.lines
    ]
    if not known:
        return "min_coverage", "not known", "-"
    part, lines, where = min(known)
    return "min_coverage", f"{part:.3f} ({lines})", where
