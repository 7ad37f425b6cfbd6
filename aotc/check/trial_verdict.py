"""The verdict on trials: proof for the bundle manifest, or findings with the numbers.

Rule 1, `leaks`: a padded or split call gives plain JAX's results within the tolerance. Rule 2,
`judged`: so does every other call, unless the executable is as close to float64 as plain JAX is
(`aotc.check.trial_truth`). The fixture's call does in any case, and gives the same results again.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isinf

from msgspec import Struct
from msgspec.structs import replace

from aotc.base.errors import finding, shorten
from aotc.check import trial_inputs
from aotc.check.trial_records import FIXTURE, Call, EntryTrials, Outcome, Trial
from aotc.check.trial_run import DECLARED, LARGEST, SMALLEST
from aotc.check.trial_truth import Verdict
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.bundle_manifest import ParityRan, TrialRan
from aotc_runtime.schema.manifest_labels import ExecutableKey, sizes_text
from aotc_runtime.serving.readiness import Difference

type At = Callable[[str, str, str, str], str]
"""The place of a key path, as `BuildManifest.where`."""


class Repeat(Struct, frozen=True):
    """Two calls of an executable with its fixture, before its trials and after them.

    `is_identical` is whether they gave the same bytes; `changed` the path of an output that
    differs by more than sums in another order on a device that has no fixed one.
    """

    key: ExecutableKey
    is_identical: bool = True
    changed: str | None = None


def parity_of(difference: Difference) -> ParityRan:
    """Return a fixture's difference as a bundle manifest has it."""
    return ParityRan(
        max_abs=repr(difference.max_abs),
        max_rel=repr(difference.max_rel),
        ulp_max=difference.ulp_max,
        elements=difference.elements,
        worst=difference.worst,
    )


def proofs(
    outcomes: Sequence[Outcome], ran: TrialRan
) -> Mapping[str, tuple[bundle_manifest.Trial, ...]]:
    """Return the evidence of each dimension for the bundle manifest, of one entry point's trials.

    `ran` says whether the executable or the function was tried. A failed trial beside other calls
    rejects no call, since the loader joins calls only if all of these trials are in the evidence.
    """
    proof: dict[str, tuple[bundle_manifest.Trial, ...]] = {}
    apart = {o.trial.dimensions for o in outcomes if o.trial.beside and not o.difference.within}
    for outcome in outcomes:
        trial, difference = outcome.trial, outcome.difference
        if not trial.dimensions or (trial.beside and trial.dimensions in apart):
            continue
        record = bundle_manifest.Trial(
            sizes=trial.call.sizes,
            profile=trial.profiles[0],
            fill=trial.fill,
            max_abs=repr(difference.max_abs),
            max_rel=repr(difference.max_rel),
            ulp_max=difference.ulp_max,
            ran=ran,
            inputs=trial.call.inputs,
        )
        for name in trial.dimensions:
            proof[name] = (*proof.get(name, ()), record)
    return proof


def leaks(entry: EntryTrials, outcomes: Sequence[Outcome], what: str, at: At) -> Iterator[Finding]:
    """Yield a finding for each set of an entry point's dimensions that exceed the tolerance.

    `what` is "plain JAX", or "the executables for cpu-x86-64-v3".
    """
    failed: dict[tuple[str, ...], list[Outcome]] = {}
    own = [o for o in outcomes if o.trial.call.key.entry_point == entry.entry_point]
    for outcome in own:
        trial = outcome.trial
        if trial.dimensions and not trial.beside and not outcome.difference.within:
            failed.setdefault(trial.dimensions, []).append(outcome)
    alone = {dimensions[0] for dimensions in failed if len(dimensions) == 1}
    for dimensions, each in failed.items():
        if len(dimensions) > 1 and not alone.isdisjoint(dimensions):
            continue
        count = sum(outcome.trial.dimensions == dimensions for outcome in own)
        yield _leak(entry, each, count, what, at)


def endless(entry: EntryTrials, trial: Trial, seconds: float, at: At) -> Finding:
    """AOTC-E955 or E956 for a trial that was stopped after so many seconds."""
    never = Outcome(trial, Difference(inf, inf, 0, 0, within=False, excess=inf))
    finding = _leak(entry, [never], 1, "plain JAX itself", at)
    done = finding.found.removeprefix("another result from ").partition(": max abs error")[0]
    return replace(finding, found=f"none within {seconds:.0f} s from {done}")


def _leak(entry: EntryTrials, failed: Sequence[Outcome], count: int, what: str, at: At) -> Finding:
    """Return the finding for trials of the same dimensions."""
    # With what calls really hold, if that fails already; the largest error of those otherwise.
    outcome = max(
        failed,
        key=lambda o: (
            o.trial.fill in (DECLARED, ""),
            o.trial.call.inputs == FIXTURE,
            o.difference.max_abs,
        ),
    )
    trial, difference, inputs = outcome.trial, outcome.difference, outcome.trial.call.inputs
    dimensions = trial.dimensions
    names = " and ".join(dimensions)
    stated = at("entry_points", entry.entry_point, "out_of_profile", dimensions[0])
    stated += "".join(f" and {name}" for name in dimensions[1:])
    asked = sizes_text(trial.call.sizes)
    if inputs != FIXTURE:
        asked += f", its inputs {NAMES.get(inputs, inputs)}"
    if trial.fill:
        names_of = {DECLARED: "what is declared", "nan": "NaN", "inf": "infinity", "ones": "ones"}
        fill = names_of.get(trial.fill, f"the {trial.fill} numbers")
        done = f"padded to {sizes_text(trial.profiles[0])} and filled with {fill}"
        if shown := [f"{path} = {number}" for path, number in trial.filled.items()]:
            done += f" ({shorten(shown, 4)})"
    else:
        counts = Counter(map(sizes_text, trial.profiles)).items()
        parts = " and ".join(text if n == 1 else f"{n} times {text}" for text, n in counts)
        done = f"split into {parts}"
    return finding(
        "AOTC-E955" if trial.fill else "AOTC-E956",
        f"{stated}, output {difference.worst or 'result'}",
        f"{what}, {done}: {difference}; {len(failed)} of {count} trials differ",
        expected=f"the result of plain JAX at exactly {asked}",
        hint=_leak_hint(entry, trial, failed, names),
    )


NAMES = {
    trial_inputs.LOW: "all low",
    trial_inputs.HIGH: "all high",
    trial_inputs.RISING: "low, then high",
    trial_inputs.NAN_ROW: "with a row of NaN",
    trial_inputs.INFINITE_ROW: "with a row of infinities",
    trial_inputs.EQUAL_ROWS: "with equal rows",
    trial_inputs.FILL_ROW: "with a row like the padding",
}
"""Kinds of inputs in messages, if not by their own names."""

ROUNDING = 1e-3
"""The largest relative error that rounding in another order, in float32, plausibly makes."""


def _leak_hint(entry: EntryTrials, trial: Trial, failed: Sequence[Outcome], names: str) -> str:
    largest = max(each.difference.max_rel for each in failed)
    extremes = (LARGEST, SMALLEST)
    is_beyond = all(o.trial.fill in extremes and isinf(o.difference.max_abs) for o in failed)
    size = min((dict(trial.call.sizes)[name] for name in trial.dimensions), default=0)
    above = [p for p, (_, high) in entry.ranges.items() if high > size and p not in trial.filled]
    if is_beyond and any(number.lstrip("-").isdecimal() for number in trial.filled.values()):
        hint = (
            "state the indices that callers pass in `ranges` of the fixtures, as one beyond its "
            f"table gives NaN; else keep the padding out of sums over {names}"
        )
    elif trial.fill and (marks := [path for path in trial.filled if path in entry.marks]):
        stated = ", ".join(f"{path} = {entry.marks[path]}" for path in marks)
        hint = (
            f"if {' and '.join(marks)} is the caller's own mask and {_meaning(entry, marks)}, "
            f"state `fill = {{ {stated} }}` beside the policy; else keep the padding out of sums, "
            f"means and maxima over {names}"
        )
    elif trial.fill and above and len(trial.dimensions) == 1:
        hint = (
            f"if {above[0]} counts entries along {names} (it is up to "
            f"{entry.ranges[above[0]][1]}, above {size}), use `minimum({above[0]}, size)` with "
            '`length = "size"` beside the policy, or a `mask`'
        )
    elif trial.fill:
        hint = (
            f"take a `mask`, and use jnp.where(mask, x, 0) before sums, means and maxima over "
            f"{names}; or leave the policy at fail"
        )
        is_row = [o.trial.call.inputs == trial_inputs.FILL_ROW for o in failed]
        if all(o.trial.fill != DECLARED or row for o, row in zip(failed, is_row, strict=True)):
            hint += "; callers may pass the fill's number too"
    else:
        hint = f"leave the policy at fail: entries along {names} depend on each other"
    if {o.trial.call.inputs for o in failed} <= {*trial_inputs.SPECIAL_ROWS}:
        hint += '; if callers pass no NaN or infinity, state `ranges` or `numerics = "finite"`'
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


def judge(
    outcomes: Sequence[Outcome], verdicts: Mapping[Call, Verdict]
) -> tuple[list[Outcome], dict[ExecutableKey, list[Outcome]]]:
    """Return all outcomes, and by executable those of value trials that are wrong.

    Those that are right by the truth are marked. A fixture beyond the tolerance is always wrong,
    since the loader rejects it.
    """
    marked: list[Outcome] = []
    wrong: dict[ExecutableKey, list[Outcome]] = {}
    for outcome in outcomes:
        call = outcome.trial.call
        if not outcome.trial.dimensions and not outcome.difference.within:
            verdict = verdicts.get(call)
            if call.inputs == FIXTURE or not (verdict and verdict.is_accepted):
                wrong.setdefault(call.key, []).append(outcome)
            outcome = replace(outcome, truth=True)
        marked.append(outcome)
    return marked, wrong


def excess(wrong: Sequence[Outcome], target: str, verdict: Verdict | None) -> Finding:
    """Return AOTC-E951 for an executable whose results differ in these calls.

    `verdict` is that of the first call; None without one.
    """
    (first, *others), difference = wrong, wrong[0].difference
    call = first.trial.call
    where = f"{call.key.label} for {target}, output {difference.worst or 'result'}"
    if call.inputs != FIXTURE:
        where += f", inputs {call.inputs}"
    found = f"{difference} over {difference.elements} elements"
    if others:
        kinds = ", ".join(other.trial.call.inputs for other in others)
        found += f"; others with inputs {kinds} as well"
    if verdict is None:
        return finding("AOTC-E951", where, found)
    if verdict.different:
        found = (
            f"{verdict.different} of {verdict.elements} elements differ, the first at "
            f"{list(verdict.first)}, median {verdict.median:.3g}, {found}"
        )
    if verdict.found is not None and verdict.plain is not None:
        of_finite = "" if math.isfinite(difference.max_abs) else " of finite numbers"
        found += (
            f"; largest error{of_finite} against float64 {verdict.found:.3g}, "
            f"of plain JAX {verdict.plain:.3g}"
        )
    return finding("AOTC-E951", where, found, hint=_excess_hint(call, verdict))


def _excess_hint(call: Call, verdict: Verdict) -> str:
    match verdict.wrong:
        case "rounding":
            return "raise `tolerance`: both results are as close to those in float64"
        case "plain JAX":
            return (
                "the executable computes what was traced, as StableHLO's reference shows: if the "
                "function depends on time, random numbers or Python's state, pass these as inputs; "
                "else plain JAX is wrong: report it, and write the operation in another way"
            )
        case "both":
            return (
                "StableHLO's reference interpreter gives a third result: report it to jax, and "
                "write the operation in another way"
            )
    hint = "build for another engine, and report the program: the executable is wrong"
    if call.inputs in trial_inputs.SPECIAL:
        hint += '; if callers pass no such numbers, state `ranges` or `numerics = "finite"`'
    return hint


def varies(repeat: Repeat, target: str, verdict: Verdict | None) -> Finding:
    """AOTC-E959 for an executable that gives another result for the same inputs."""
    hint = "build for another engine, and report this with the program"
    if verdict is not None and verdict.opinion in ("plain JAX", "both"):
        hint += "; StableHLO's reference interpreter finds plain JAX wrong here too"
    where = f"{repeat.key.label} for {target}, output {repeat.changed}"
    return finding("AOTC-E959", where, "", cause="results-vary-between-calls", hint=hint)
