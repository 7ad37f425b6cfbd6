"""The file that `aotc build --tune --save-tuning` writes, and `--tuning` builds from again."""

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from aotc.base.errors import finding, raise_if, refusal
from aotc.base.evidence import EngineChoice
from aotc.base.stages import ByTarget, CompileJob
from aotc.config.build_manifest import BuildManifest
from aotc.config.precision_specs import ChosenPrecision
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import XLA, MeasuredCandidate, Tuned, engine_name
from aotc_runtime.schema.manifest_labels import ExecutableKey
from aotc_runtime.system.bundle_files import read_file

type Positions = Mapping[ExecutableKey, int]
"""The index of each profile among those of its entry point, for all targets: its name in a file."""

HEAD = b'{\n  "aotc_tuning": 1,\n'
"""The first bytes of every such file."""

BYTES_MAX = 64 * 2**20
"""The size of a tuning file; one of 12 executables has about 20 KB."""


class TunedExecutable(Struct, frozen=True, forbid_unknown_fields=True):
    """The tuned options of one executable.

    `module` is the digest of what was compiled, so that choices are not applied to another program.
    `engine` is set where another engine than the target's compiled it.
    """

    target: str
    entry_point: str
    profile: int
    label: str
    module: str
    tuned: Tuned
    engine: str | UnsetType = UNSET


class TunedTarget(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A target of another engine than XLA, or of one chosen among several.

    `tools` maps what the engine compiles with, besides jaxlib, to versions.
    """

    engine: str
    tools: dict[str, str] = {}
    choice: EngineChoice | UnsetType = UNSET


class TuningFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The file of one build.

    `jaxlib` is the version that was measured. `untuned_targets` maps targets to the reason why this
    host cannot run them. `targets` has those of another engine than XLA, or of a chosen one;
    `precisions` those of entry points that could have others, or that keep weights.
    """

    aotc_tuning: Literal[1]
    jaxlib: str
    executables: tuple[TunedExecutable, ...]
    untuned_targets: dict[str, str]
    targets: dict[str, TunedTarget] = {}
    precisions: dict[str, ChosenPrecision] = {}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tuning file that was read; `where` is for messages."""

    file: TuningFile
    where: str


def encode(file: TuningFile) -> bytes:
    """Encode a file as indented JSON for version control."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def from_build(
    tuned: ByTarget[Tuned],
    jobs: ByTarget[CompileJob],
    positions: Positions,
    untuned_targets: Mapping[str, str],
    jaxlib: str,
    targets: Mapping[str, TunedTarget],
) -> TuningFile:
    """Return the choices of a build as a file."""
    own = {name: each.engine for name, each in targets.items()}
    return TuningFile(
        aotc_tuning=1,
        jaxlib=jaxlib,
        executables=tuple(
            TunedExecutable(
                target,
                key.entry_point,
                positions[key],
                job.label,
                job.module.digest,
                choice,
                UNSET if engine == own.get(target, XLA) else engine,
            )
            for target, each in tuned.items()
            for key, choice in each.items()
            for job in [jobs[target][key]]
            for engine in [engine_name(job.target)]
        ),
        untuned_targets=dict(untuned_targets),
        targets=dict(targets),
    )


def read(path: Path) -> Recorded:
    """Read a tuning file. Raises UsageError (AOTC-E030)."""
    try:
        data = read_file(path, BYTES_MAX)
        if len(data) > BYTES_MAX:
            raise OSError(errno.EFBIG, f"more than {BYTES_MAX} bytes")
        file = msgspec.json.decode(data, type=TuningFile)
    except (OSError, ValueError, RecursionError) as error:  # MsgspecError is a ValueError
        found = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise refusal("AOTC-E030", str(path), found) from error
    return Recorded(file, str(path))


def precisions_of(recorded: Recorded, manifest: BuildManifest) -> dict[str, ChosenPrecision]:
    """Return the precisions that the file chose. Raises UsageError (AOTC-E031) for other ones."""
    chosen = recorded.file.precisions
    for name in chosen.keys() | {n for n, e in manifest.entry_points.items() if e.precision[1:]}:
        spec = manifest.entry_points.get(name)
        if spec is None or name not in chosen or chosen[name].precision not in spec.precision:
            found = chosen[name].precision if name in chosen else "none"
            expected = f"one of: {', '.join(spec.precision)}" if spec else "no such entry point"
            where = f"{recorded.where}, precision of {name}"
            raise refusal("AOTC-E031", where, found, expected=expected)
    return chosen


def engines_of(
    recorded: Recorded, target: str, engines: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the engine chosen for a target, and those chosen for single executables.

    The engine is None for a target that was not tuned. `engines` are those that the target may
    have. Raises UsageError (AOTC-E031) where other engines were measured.
    """
    if target in recorded.file.untuned_targets:
        return None, ()
    known = recorded.file.targets.get(target)
    every = (e.engine for e in recorded.file.executables if e.target == target)
    beside = tuple(sorted({each for each in every if each is not UNSET}))
    found, fits = XLA, list(engines) == [XLA] and not beside
    if known is not None:
        found, fits = known.engine, {known.engine, *beside} <= {*engines}
        # Of several engines XLA's target is the one that can say which jaxlib may run it.
        fits = fits and not (XLA in beside or known.engine in beside)
    if fits:
        return found, beside
    where, found = f"{recorded.where}, {target}", f"choices for {' and '.join((found, *beside))}"
    expected = f"choices for the engines: {', '.join(engines)}"
    raise refusal("AOTC-E031", where, found, expected=expected)


def separate_engine_of(
    recorded: Recorded, target: str, key: ExecutableKey, position: int
) -> str | None:
    """Return the engine that the file chose for an executable, if it is not the target's."""
    place = target, key.entry_point, position
    every = recorded.file.executables
    found = (e.engine for e in every if (e.target, e.entry_point, e.profile) == place)
    return next((each for each in found if each is not UNSET), None)


def choices(
    recorded: Recorded,
    jobs: ByTarget[CompileJob],
    positions: Positions,
    jaxlib: str,
    tools: Mapping[str, Mapping[str, str]],
) -> ByTarget[Tuned]:
    """Return the file's choice for each job; targets that were not tuned have none.

    `tools` maps each target to the versions that it is compiled with, besides jaxlib. Raises
    UsageError (AOTC-E031) if the file is of another program, target, jaxlib or other compiler.
    """
    file, mismatches = recorded.file, list[Finding]()

    def require(fits: bool, where: str, expected: str, found: str) -> bool:
        if not fits:
            where = f"{recorded.where}{where}"
            mismatches.append(finding("AOTC-E031", where, found, expected=expected))
        return fits

    require(file.jaxlib == jaxlib, "", f"jaxlib {jaxlib}", f"jaxlib {file.jaxlib}")
    chosen: dict[str, dict[ExecutableKey, Tuned]] = {
        target: {} for target in jobs if target not in file.untuned_targets
    }
    for target, made in file.targets.items():
        if target in chosen:
            own = tools.get(target, {})
            require(made.tools == own, f", {target}", _versions(own), _versions(made.tools))
    known = {(e.target, e.entry_point, e.profile): e for e in file.executables}
    for target, choice in chosen.items():
        for key, job in jobs[target].items():
            where, program = f", {job.label} for {job.target.name}", job.module.digest
            found = known.get((target, key.entry_point, positions[key]))
            if found is None:
                require(False, where, "a choice for every executable", "none")
            elif require(found.module == program, where, f"the program {program}", found.module):
                choice[key] = found.tuned
                told = f"{found.tuned.choice}, {len(found.tuned.captured)} weights captured"
                require(_was_measured(found.tuned, job), where, "a choice that was measured", told)
    raise_if(mismatches)
    return chosen


def _was_measured(tuned: Tuned, job: CompileJob) -> bool:
    names = {each.name for each in tuned.candidates if isinstance(each, MeasuredCandidate)}
    # Variants that capture weights are named so, after their engine if there are several.
    way = tuned.choice.removeprefix(f"{engine_name(job.target)}-")
    # The default is also the choice where nothing could be measured.
    is_known = tuned.choice in names or way == "default"
    return is_known and way.startswith("captured") == bool(tuned.captured)


def _versions(tools: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(tools.items())) or "no others"
