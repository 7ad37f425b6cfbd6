"""Measures variants in turns: `python -m aotc.commands.tune.tuning_worker FOLDER`.

It uses the runtime alone. Each variant is a target of one staging bundle, measured unless its
fixture fails. A call is timed as a server makes it: numpy in, numpy out, arguments checked.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aotc.base.workers.worker_child import Progress, answer
from aotc.commands.tune import tuning_messages
from aotc.commands.tune.tuning_choice import best_of
from aotc.commands.tune.tuning_messages import Answer, Job, Times, Unfit
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
    times = []
    for key, candidates in calls.items():
        if job.targets[0] in candidates:
            rounds = turns(candidates, progress, key.entry_point)
            best = [best_of(names, rounds) for names in job.engines if names[0] in rounds]
            # The luckiest of many candidates looks faster in the rounds that chose it than it is.
            again = {name: candidates[name] for name in best} if len(best) > 1 else {}
            times.append(Times(key, rounds, turns(again, progress) if again else {}))
    assert "jax" not in sys.modules, "the runtime never imports jax"
    return Answer(facts.cpu, threads, facts.jaxlib, times=times, unfit=unfit)


def resident_of(bundle: str, policy: TrustPolicy, target: str | None) -> ResidentBundle | str:
    """Return a target in memory, or why this host cannot run it; by default the best one."""
    with accept_bundle(open_bundle(Path(bundle)), policy, time.time()) as accepted:
        evaluated = evaluate(accepted, prepare(accepted.wanted(target), None, None, None), target)
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
    candidates: dict[str, Call], progress: Progress, counted: str = ""
) -> dict[str, list[float]]:
    """Return median microseconds of a call by variant and round.

    `counted`, if not empty, is reported at even intervals, as often as there are variants.
    """
    first: dict[str, float] = {}
    for target, call in candidates.items():
        progress.started(target)
        call()
        started = time.perf_counter()
        call()
        first[target] = time.perf_counter() - started
    turn = max(tuning_messages.SECONDS_PER_TURN, statistics.mean(first.values()) * 3)
    rounds = int(tuning_messages.SECONDS_PER_EXECUTABLE / (turn * len(candidates)))
    rounds = max(tuning_messages.ROUNDS_MIN, min(tuning_messages.ROUNDS, rounds))
    order = list(candidates)
    times: dict[str, list[float]] = {target: [] for target in order}
    for number in range(rounds):
        # Backwards every other time: whatever one leaves behind, its neighbours take turns in it.
        for target in order if number % 2 == 0 else order[::-1]:
            progress.started(target)
            times[target].append(_median(candidates[target]))
            turns = sum(map(len, times.values()))
            if counted and turns % rounds == 0:
                progress.finished(counted)
    return times


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
