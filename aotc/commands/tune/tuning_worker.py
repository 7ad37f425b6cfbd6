"""Measures variants in turns: `python -m aotc.commands.tune.tuning_worker FOLDER`.

It uses the runtime alone. Each variant is a target of one staging bundle, measured unless its
fixture fails. A call is timed as a server makes it: numpy in, numpy out, arguments checked.
"""

import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.base.workers.worker_child import Progress, answer
from aotc.commands.tune import tuning_messages
from aotc.commands.tune.tuning_choice import best_of
from aotc.commands.tune.tuning_messages import FULL, Answer, Effort, Job, Times, Unfit
from aotc_runtime.base.errors import AotcError
from aotc_runtime.engines.engine_registry import detect, prepare
from aotc_runtime.engines.xla import xla_engine
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema.manifest_labels import ExecutableKey, arguments_of
from aotc_runtime.schema.trust_policy import TrustPolicy
from aotc_runtime.serving.loaded_bundle import LoadedEntryPoint
from aotc_runtime.serving.readiness import run_all
from aotc_runtime.serving.resident_bundle import ResidentBundle, make_resident
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.policy_reader import read_policy
from aotc_runtime.verification.verify_bundle import accept_bundle, evaluate, require

type Call = Callable[[], Any]
type Calls = Mapping[ExecutableKey, Mapping[str, Call]]
"""Calls of each executable by variant."""


def measure(job: Job, progress: Progress) -> Answer:
    """Load every candidate, check its fixtures, and time what is to be measured.

    progress: told of each turn, by its candidate, and as often as there are candidates meanwhile.
    """
    facts = detect()
    threads = xla_engine.processor().threads
    policy = read_policy(Path(job.policy))
    calls: dict[ExecutableKey, dict[str, Call]] = {}
    unfit: list[Unfit] = []
    for target in job.targets:
        progress.started(target)
        wanted = [key for owner, key in job.executables if owner == target]
        try:
            resident = resident_of(job.bundle, policy, target)
            if isinstance(resident, str) and target == job.targets[0]:
                return Answer(facts.cpu, threads, facts.jaxlib, unsuited=resident)
            if isinstance(resident, str):
                unfit += [Unfit(target, key, resident) for key in wanted]
                continue
            found = {profile.key: ran.difference for profile, ran in run_all(resident)}
        except AotcError as error:
            finding = error.findings[0]
            reason = f"{finding.code}: {finding.found}"
            unfit += [Unfit(target, key, reason) for key in wanted]
            continue
        for key in wanted:
            if found[key].within:
                calls.setdefault(key, {})[target] = call_of(resident, key)
            else:
                reason = f"its results differ from plain JAX by up to {found[key].max_abs:.3g}"
                unfit.append(Unfit(target, key, reason))
    calls = {key: each for key, each in calls.items() if job.targets[0] in each}
    times = [*(_all_variants if job.effort.variants else _engines)(job, calls, unfit, progress)]
    assert "jax" not in sys.modules, "the runtime never imports jax"
    return Answer(facts.cpu, threads, facts.jaxlib, times=times, unfit=unfit)


def _all_variants(
    job: Job, calls: Calls, unfit: list[Unfit], progress: Progress
) -> Iterator[Times]:
    """Yield the times of each executable; slow variants are added to `unfit`."""
    stay = {names[0] for names in job.engines} or {*job.targets[:1]}
    for key, candidates in calls.items():
        rounds = halve({key: candidates}, stay, job.effort, progress, unfit)[key]
        best = [best_of(names, rounds) for names in job.engines if names[0] in rounds]
        # The luckiest of many candidates looks faster in the rounds that chose it than it is.
        again = {name: candidates[name] for name in best}
        finals = turns(again, progress, job.effort) if len(best) > 1 else {}
        for _ in candidates:
            progress.finished(key.entry_point)
        yield Times(key, rounds, finals)


def _engines(job: Job, calls: Calls, unfit: list[Unfit], progress: Progress) -> Iterator[Times]:
    """Yield the times of the engines' defaults; slow engines are added to `unfit`."""
    lacking = {name for each in calls.values() for name in job.targets if name not in each}
    for key, each in calls.items():
        unfit += (Unfit(name, key, "lacks another executable") for name in lacking & each.keys())
    shared = {
        key: {name: call for name, call in each.items() if name not in lacking}
        for key, each in calls.items()
    }
    rounds = halve(shared, {*job.targets[:1]}, job.effort, progress, unfit)
    yield from (Times(key, each) for key, each in rounds.items())


def resident_of(bundle: str, policy: TrustPolicy, target: str | None) -> ResidentBundle | str:
    """Return a target in memory, or why this host cannot run it; by default the best one."""
    with accept_bundle(open_bundle(Path(bundle)), policy, time.time()) as accepted:
        evaluated = evaluate(
            accepted, prepare(accepted.facts_for(target), None, None, None), target
        )
        if evaluated.manifest is not None and evaluated.choice.findings:
            accepted.finish()
            unfit = evaluated.choice.findings
            return "; ".join(f"expected {f.expected}, found {f.found}" for f in unfit)
        verified = require(evaluated).finish()
    return make_resident(verified)


def call_of(resident: ResidentBundle, key: ExecutableKey) -> Call:
    """Return a call of one executable with the inputs of its fixture."""
    name, entry_point = key.entry_point, resident.entry_points[key.entry_point]
    record = next(profile.record for profile in entry_point.profiles if profile.key == key)
    views = tensor_views(resident.verified.blob(record.fixture).data, f"fixture {name}")
    leaves = [views[f"inputs/{tensor.path}"][0] for tensor in entry_point.spec.inputs]
    function = LoadedEntryPoint(entry_point)
    positional, named = arguments_of(function.parameters, leaves)
    return lambda: function(*positional, **named)


def turns(
    candidates: Mapping[str, Call], progress: Progress, effort: Effort = FULL
) -> dict[str, list[float]]:
    """Return median microseconds of a call by variant and round."""
    key = ExecutableKey("")
    return halve({key: candidates}, {*candidates}, effort, progress, [])[key]


def halve(
    calls: Calls, stay: Collection[str], effort: Effort, progress: Progress, unfit: list[Unfit]
) -> dict[ExecutableKey, dict[str, list[float]]]:
    """Return median microseconds of a call by executable, variant and round.

    All executables have the same variants. After each round the slower half of those that need not
    `stay` leaves the field, and is added to `unfit`.
    """
    field = [*dict.fromkeys(name for each in calls.values() for name in each)]
    rounds = _rounds_of(calls, effort, progress)
    times = {key: {name: list[float]() for name in field} for key in calls}
    for number in range(rounds):
        # Backwards every other time: whatever one leaves behind, its neighbours take turns in it.
        for key, each in times.items():
            for name in field if number % 2 == 0 else field[::-1]:
                progress.started(name)
                each[name].append(_median(calls[key][name]))
        ranked = sorted((_typical(times, name), name) for name in field if name not in stay)
        for figure, name in ranked[(len(ranked) + 1) // 2 :]:
            field.remove(name)
            ratio = figure / min(_typical(times, other) for other in field)
            reason = f"{ratio:.2f} times as long as the fastest in round {number + 1}"
            unfit += (Unfit(name, key, reason) for key in times)
            for each in times.values():
                del each[name]
    return times


def _typical(times: Mapping[ExecutableKey, Mapping[str, Sequence[float]]], name: str) -> float:
    """Return the geometric mean of a variant's medians over executables."""
    return statistics.geometric_mean(statistics.median(each[name]) for each in times.values())


def _rounds_of(calls: Calls, effort: Effort, progress: Progress) -> int:
    """Return the number of rounds, by calling everything twice."""
    taken = 0.0
    for candidates in calls.values():
        for name, call in candidates.items():
            progress.started(name)
            call()
            started = time.perf_counter()
            call()
            taken += max(tuning_messages.SECONDS_PER_TURN, 3 * (time.perf_counter() - started))
    rounds = int(effort.seconds / taken) if taken else effort.rounds
    return max(tuning_messages.ROUNDS_MIN, min(effort.rounds, rounds))


def _median(call: Call) -> float:
    """Microseconds of a call: the median of one turn, after a few that do not count."""
    now = time.perf_counter()
    warm = now + tuning_messages.SECONDS_PER_TURN / 5
    stop = now + tuning_messages.SECONDS_PER_TURN
    times: list[float] = []
    while now < stop or len(times) < tuning_messages.CALLS_PER_TURN_MIN:
        before = now
        call()
        now = time.perf_counter()
        if before >= warm or now >= stop:
            times.append((now - before) * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    answer(Job, measure)
