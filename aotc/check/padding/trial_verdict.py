"""The verdict on trials: proof for the bundle manifest, or a refusal with the numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isinf

from msgspec.structs import replace

from aotc.base.errors import finding
from aotc.check.padding.trial_records import (
    DECLARED,
    FIXTURE,
    HIGH,
    LARGEST,
    LOW,
    SMALLEST,
    EntryTrials,
    PlannedTrial,
)
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Trial, TrialRan
from aotc_runtime.schema.manifest_labels import sizes_text
from aotc_runtime.serving.readiness import Difference

type Tried = Sequence[tuple[PlannedTrial, Difference]]

type At = Callable[[str, str, str, str], str]
"""The place of a key path, as `BuildManifest.where`."""


def tried(entry: EntryTrials, outcomes: Sequence[Difference]) -> Tried:
    """Return the trials with what came of them."""
    return list(zip(entry.trials, outcomes, strict=True))


def evidence(found: Tried, ran: TrialRan) -> Mapping[str, tuple[Trial, ...]]:
    """Return the evidence of each dimension for the bundle manifest.

    `ran` says whether the executable or the function was tried. A failed trial beside other calls
    rejects no call, since the loader joins calls only if all of these trials are in the evidence.
    """
    proof: dict[str, tuple[Trial, ...]] = {}
    minds = {trial.dimensions for trial, outcome in found if trial.beside and not outcome.within}
    for trial, outcome in found:
        if trial.beside and trial.dimensions in minds:
            continue
        record = Trial(
            sizes=trial.sizes,
            profile=trial.profiles[0],
            fill=trial.fill,
            max_abs=repr(outcome.max_abs),
            max_rel=repr(outcome.max_rel),
            ulp_max=outcome.ulp_max,
            ran=ran,
            inputs=trial.inputs,
        )
        for name in trial.dimensions:
            proof[name] = (*proof.get(name, ()), record)
    return proof


def refusals(entry: EntryTrials, found: Tried, what: str, at: At) -> Iterator[Finding]:
    """Yield a finding for each set of dimensions whose trials exceed the tolerance.

    `what` is "plain JAX", or "the executables for cpu-x86-64-v3".
    """
    failed: dict[tuple[str, ...], list[tuple[PlannedTrial, Difference]]] = {}
    for trial, outcome in found:
        if not outcome.within and not trial.beside:
            failed.setdefault(trial.dimensions, []).append((trial, outcome))
    alone = {dimensions[0] for dimensions in failed if len(dimensions) == 1}
    for dimensions, each in failed.items():
        if len(dimensions) > 1 and not alone.isdisjoint(dimensions):
            continue
        count = sum(trial.dimensions == dimensions for trial, _ in found)
        yield _refusal(entry, dimensions, each, count, what, at)


def endless(entry: EntryTrials, trial: PlannedTrial, seconds: float, at: At) -> Finding:
    """AOTC-E955 or E956 for a trial that was stopped after so many seconds."""
    never = Difference(inf, inf, 0, 0, within=False, excess=inf)
    finding = _refusal(entry, trial.dimensions, [(trial, never)], 1, "plain JAX itself", at)
    done = finding.found.removeprefix("another result from ").partition(": max abs error")[0]
    return replace(finding, found=f"none within {seconds:.0f} s from {done}")


def _refusal(
    entry: EntryTrials, dimensions: tuple[str, ...], failed: Tried, count: int, what: str, at: At
) -> Finding:
    # With what calls really hold, if that fails already; the largest error of those otherwise.
    trial, outcome = max(
        failed,
        key=lambda each: (
            each[0].fill in (DECLARED, ""),
            each[0].inputs == FIXTURE,
            each[1].max_abs,
        ),
    )
    names = " and ".join(dimensions)
    stated = at("entry_points", entry.entry_point, "out_of_profile", dimensions[0])
    stated += "".join(f" and {name}" for name in dimensions[1:])
    asked = sizes_text(trial.sizes)
    if trial.inputs != FIXTURE:
        asked += f", its inputs {'all ' if trial.inputs in (LOW, HIGH) else ''}{trial.inputs}"
    if trial.fill:
        done = f"padded to {sizes_text(trial.profiles[0])} and filled with {_named(trial.fill)}"
        done += _numbers(trial.filled)
    else:
        parts = " and ".join(sizes_text(profile) for profile in trial.profiles)
        done = f"split into {parts}"
    numbers = (
        f"max abs error {outcome.max_abs!r}, max rel error {outcome.max_rel!r}, "
        f"{outcome.ulp_max} ulp"
    )
    return finding(
        "AOTC-E955" if trial.fill else "AOTC-E956",
        f"{stated}, output {outcome.worst or 'result'}",
        f"{what}, {done}: {numbers}; {len(failed)} of {count} trials differ",
        expected=f"the result of plain JAX at exactly {asked}",
        hint=_hint(entry, trial, failed, names),
    )


ROUNDING = 1e-3
"""The largest relative error that rounding in another order, in float32, plausibly makes."""

SHOWN_MAX = 4
"""Inputs that a message names with the number that filled them."""


def _hint(entry: EntryTrials, trial: PlannedTrial, failed: Tried, names: str) -> str:
    largest = max(outcome.max_rel for _, outcome in failed)
    is_beyond = all(
        each.fill in (LARGEST, SMALLEST) and isinf(outcome.max_abs) for each, outcome in failed
    )
    if is_beyond and any(number.lstrip("-").isdecimal() for number in trial.filled.values()):
        hint = (
            "an index beyond its table gives NaN, also where results are masked: state the numbers "
            f"of the input in fixtures.ranges; else keep the padding out of sums over {names}"
        )
    elif trial.fill and (marks := [path for path in trial.filled if path in entry.marks]):
        stated = ", ".join(f"{path} = {entry.marks[path]}" for path in marks)
        hint = (
            f"if {' and '.join(marks)} is the caller's own mask and {_meaning(entry, marks)}, "
            f"state `fill = {{ {stated} }}` beside the policy; else keep the padding out of sums, "
            f"means and maxima over {names}"
        )
    elif trial.fill:
        hint = (
            f"keep the padding out of sums, means and maxima over {names}: take a `mask`, and "
            "jnp.where(mask, x, 0) before anything is added up; or leave the policy at fail"
        )
    else:
        hint = f"entries along {names} depend on each other: leave the policy at fail"
    # XLA adds up in another order at every size; what leaks is seldom so small with every fill.
    if largest > ROUNDING and not (entry.rounds and largest < inf):
        return hint
    cause = "activations may go to another 8-bit step" if entry.rounds else "as small as rounding"
    return (
        f"{cause}: if it is that, raise `tolerance` of {entry.entry_point}, now "
        f"rtol = {entry.rtol:g}, atol = {entry.atol:g}; else {hint}"
    )


def _meaning(entry: EntryTrials, marks: Sequence[str]) -> str:
    """Say when the fill that a hint names is right."""
    values = {entry.marks[path] for path in marks}
    return " or ".join(
        text
        for value, text in (("true", "true marks padding"), ("0", "1 marks what is real"))
        if value in values
    )


def _named(fill: str) -> str:
    return {DECLARED: "what is declared", "nan": "NaN", "inf": "infinity", "ones": "ones"}.get(
        fill, f"the {fill} numbers"
    )


def _numbers(filled: Mapping[str, str]) -> str:
    shown = [f"{path} = {number}" for path, number in filled.items()]
    more = [f"{len(shown) - SHOWN_MAX} more"] if len(shown) > SHOWN_MAX else []
    return f" ({', '.join([*shown[:SHOWN_MAX], *more])})" if shown else ""
