"""`aotc build --tune` and `--tuning`: choices of an earlier build, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import msgspec
import numpy as np
from msgspec import UNSET

from aotc.base.evidence import MIXED, EngineChoice, LeftOutEngine
from aotc.base.stages import ByTarget, CapturedProfile, CapturedProgram, CompileJob, Executable
from aotc.compile.compiler_protocol import Candidate
from aotc.config import tuning_file
from aotc.config.precision_specs import ChosenPrecision
from aotc.config.tuning_file import Positions, Recorded, choices
from aotc.pipeline.build_options import Tuning
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.target_assembly import toolchain_of
from aotc_runtime.formats.safetensors_reader import Array, tensor_views
from aotc_runtime.schema.bundle_manifest import (
    BuiltWith,
    DType,
    Target,
    Tuned,
    WeightArgument,
    engine_name,
)
from aotc_runtime.schema.manifest_labels import ExecutableKey

type ByEngine = Mapping[str, Mapping[str, Target]]
"""Targets as engines compile them that make single executables, by target and engine."""


def untuned_targets(tuning: Tuning | None, targets: Sequence[Target]) -> dict[str, str]:
    """Return the targets that are not tuned, and why.

    Raises CompileError (AOTC-E911) if this host is to measure and can run none of them.
    """
    if tuning is None:
        return {}
    if isinstance(tuning, Recorded):
        reasons = tuning.file.untuned_targets
        return {t.name: reasons[t.name] for t in targets if t.name in reasons}
    return tuning.untuned_targets(targets)


def replay(
    targets: Sequence[Target],
    jobs: ByTarget[CompileJob],
    recorded: Recorded,
    program: CapturedProgram,
    scratch: Scratch,
    beside: ByEngine,
    built_with: Mapping[str, BuiltWith],
) -> tuple[ByTarget[CompileJob], ByTarget[Tuned]]:
    """Return the jobs with the choices of a tuning file, and those choices.

    `beside` is the result of `requested_engines` by target, `built_with` is by platform. Raises
    UsageError (AOTC-E031) for a file of another program, target or compiler.
    """
    positions, weights = positions_of(program), WeightFiles(scratch, program.weights)
    tuned_jobs: dict[str, dict[ExecutableKey, CompileJob]] = {}
    tools: dict[str, Mapping[str, str]] = {}
    for asked in targets:
        name = asked.name
        tuned_jobs[name] = {
            key: job if other is None else replace(job, target=other)
            for key, job in jobs[name].items()
            for engine in [tuning_file.separate_engine_of(recorded, name, key, positions[key])]
            for other in [beside.get(name, {}).get(engine or "")]
        }
        platforms = [job.target.platform for job in tuned_jobs[name].values()]
        tools[name] = toolchain_of(built_with, asked, platforms).tools
    chosen = choices(recorded, tuned_jobs, positions, version("jaxlib"), tools)
    tuned = {target: dict(each) for target, each in chosen.items()}
    for target, each in chosen.items():
        for key, choice in each.items():
            profile, job = program.profiles[key], tuned_jobs[target][key]
            candidate = Candidate(choice.choice, choice.options, bool(choice.captured))
            tuned_jobs[target][key] = candidate_job(job, candidate, profile, weights)
            if choice.captured:
                # The bundle records what was done here, whatever somebody wrote into the file.
                captured = weights.arguments(profile)
                tuned[target][key] = msgspec.structs.replace(choice, captured=captured)
    return tuned_jobs, tuned


def positions_of(program: CapturedProgram) -> Positions:
    """Return the index of each profile among those of its entry point."""
    return {
        key: position
        for entry_point in program.entry_points.values()
        for position, key in enumerate(entry_point.by_key)
    }


def recorded_choices(tuning: Tuning | None) -> dict[str, EngineChoice]:
    """Return the engines that a tuning file chose, by target, with the evidence."""
    if not isinstance(tuning, Recorded):
        return {}
    targets = tuning.file.targets.items()
    return {name: each.choice for name, each in targets if each.choice is not UNSET}


def requested_engines(
    tuning: Tuning | None, candidates: Sequence[Target]
) -> tuple[tuple[Target, ...], Mapping[str, Target]]:
    """Return a target for each engine to compile it, in order, and for single executables.

    A tuning file names one engine; without one, all are returned. The second result has the engines
    that the file names for single executables. Raises UsageError (AOTC-E031) for a file that has
    chosen among others.
    """
    if not isinstance(tuning, Recorded):
        return tuple(candidates), {}
    of = {engine_name(each): each for each in candidates}
    chosen, beside = tuning_file.engines_of(tuning, candidates[0].name, [*of])
    asked = tuple(candidates) if chosen is None else (of[chosen],)
    return asked, {name: of[name] for name in beside}


def notes(
    untuned_targets: Mapping[str, str],
    executables: ByTarget[Executable],
    listed: Mapping[str, str],
    chosen: Mapping[str, EngineChoice],
    engines: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Yield notes on a tuned build: untuned targets, chosen engines, weights stored twice.

    `listed` maps targets with several engines to the one that compiled; `engines` has all of them.
    """
    for target, reason in untuned_targets.items():
        order = f"; the order of its engines decides: {listed[target]}" if target in listed else ""
        yield f"not tuned: this host cannot run target {target}: {reason}{order}"
    for target, choice in chosen.items():
        how = f"by {choice.engine}, chosen for its {choice.objective} over all profiles"
        if choice.engine == MIXED:
            how = f"by {' and '.join(engines[target])}, each executable by the fastest of them"
        yield f"{target} is compiled {how}; `aotc inspect` shows what was measured"
        for each in choice.engines:
            if isinstance(each, LeftOutEngine):
                reason = each.reason.partition("\n")[0]
                yield f"{each.engine} was left out for {target}: {reason}"
    every = [executable for each in executables.values() for executable in each.values()]
    capturing = sum(bool(executable.captured) for executable in every)
    if capturing:
        yield (
            f"{capturing} of {len(every)} executables hold their weights as constants; the "
            "bundle has them in its weights as well"
        )


def precision_notes(chosen: Mapping[str, ChosenPrecision]) -> Iterator[str]:
    """Yield a note on the precision of each entry point that tuning has chosen."""
    for name, each in chosen.items():
        kept = f"; not quantized: {', '.join(each.keep)}" if each.keep else ""
        yield f"{name} has the precision {each.precision}, within the limits of its metric{kept}"


DTYPES = frozenset(
    {DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.INT16, DType.INT32, DType.INT64}
)
"""Dtypes of weights that can become constants; weights of others stay arguments."""


NARROW = frozenset({DType.BFLOAT16, DType.FLOAT16})
"""Dtypes that XLA widens to float32 for a product, on processors that do not multiply them."""


class WeightFiles:
    """A build's weights as arrays over their files, looked up by name."""

    def __init__(self, scratch: Scratch, sets: Iterable[str]) -> None:
        self._arrays = {
            (name, tensor): array
            for name in sets
            for path in scratch.weights(name)
            for data in [memoryview(np.memmap(path, np.uint8, mode="r"))]
            for tensor, (array, _) in tensor_views(data, f"weights {name}").items()
        }

    def _bound(self, profile: CapturedProfile) -> Iterator[tuple[int, WeightArgument, Array]]:
        """Yield the place, the name and the array of each weight among the parameters."""
        for place, argument in enumerate(profile.arguments):
            if isinstance(argument, WeightArgument):
                yield place, argument, self._arrays[argument.set, argument.tensor]

    def size(self, profile: CapturedProfile) -> int:
        """Return bytes of the weights that can become constants."""
        return sum(array.nbytes for array in self.values(profile).values())

    def are_narrow(self, profile: CapturedProfile) -> bool:
        """Return whether some of the profile's weights are floating-point numbers of 16 bits."""
        return any(array.dtype.name in NARROW for _, _, array in self._bound(profile))

    def arguments(self, profile: CapturedProfile) -> tuple[WeightArgument, ...]:
        """Return the weights that can become constants, in the order of the parameters."""
        bound = self._bound(profile)
        return tuple(argument for _, argument, array in bound if array.dtype.name in DTYPES)

    def values(self, profile: CapturedProfile) -> dict[int, Array]:
        """Return their arrays, by place among the parameters."""
        bound = self._bound(profile)
        return {place: array for place, _, array in bound if array.dtype.name in DTYPES}


def candidate_job(
    job: CompileJob, candidate: Candidate, profile: CapturedProfile, weights: WeightFiles
) -> CompileJob:
    """Return a profile's job with a variant's options, and weights as constants if it has any."""
    constants = weights.values(profile) if candidate.captures else {}
    return replace(job, options=candidate.options, constants=constants)
