"""Options of a build, and the protocol of whatever tunes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from aotc.base.child_processes import Processes
from aotc.base.evidence import EngineChoice
from aotc.base.stages import CapturedProgram, CompileJob, Executable
from aotc.bundle.sign.signer import Signer
from aotc.bundle.write.bundle_writer import Form, TargetParts
from aotc.compile.compiler_protocol import Backend
from aotc.config.build_manifest import BuildManifest
from aotc.config.precision_specs import ChosenPrecision
from aotc.config.tuning_file import Recorded
from aotc.pipeline.cache.cache_store import LocalStore
from aotc.pipeline.cached_backend import OpenCompilers, on_this_host
from aotc.pipeline.cached_tasks import OnDone
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.target_assembly import AssembledTarget
from aotc.pipeline.task_progress import OnStage
from aotc.pipeline.user_processes import OnOutput
from aotc_runtime.schema.bundle_manifest import Target
from aotc_runtime.schema.manifest_labels import ExecutableKey

type Assemble = Callable[[Target, Mapping[ExecutableKey, Executable]], AssembledTarget]
"""Makes the parts of a target with these executables."""


@dataclass(frozen=True, slots=True)
class EngineCompilation:
    """A target as one engine compiles it; `backend` has a cache, to compile nothing twice."""

    target: Target
    jobs: Mapping[ExecutableKey, CompileJob]
    backend: Backend


@dataclass(frozen=True, slots=True)
class Best:
    """The choice for a target.

    `jobs` made the executables, each of which has the evidence for its choice; `choice` is that of
    the engine, if there were several.
    """

    target: Target
    jobs: Mapping[ExecutableKey, CompileJob]
    executables: dict[ExecutableKey, Executable]
    choice: EngineChoice | None


type Objective = Literal["latency", "start", "memory"]


class Tuner(Protocol):
    """Whatever measures candidates on this host (`--tune`)."""

    def untuned_targets(self, targets: Sequence[Target]) -> dict[str, str]:
        """Return the targets that this host cannot run, and why.

        Raises CompileError (AOTC-E911) if it can run none of them.
        """

    def precisions(
        self, manifest: BuildManifest, options: BuildOptions
    ) -> dict[str, ChosenPrecision]:
        """Return the precisions of entry points whose evaluations have limits.

        `options` are for trial builds. Raises BudgetExceededError (AOTC-E975) if no precision keeps
        to the limits, and errors of builds.
        """

    def search(
        self,
        compilations: Sequence[EngineCompilation],
        defaults: Mapping[ExecutableKey, Executable],
        program: CapturedProgram,
        scratch: Scratch,
        assemble: Assemble,
        objective: Objective,
        *,
        mixed: bool,
        workers: int,
        processes: Processes,
        on_step: Callable[[int, int], None],
    ) -> Best:
        """Return the best executables of one target.

        Args:
            compilations: The target for each of its engines, in the order of its list.
            defaults: The untuned executables of the first engine.
            program: The captured program.
            scratch: The build's scratch folder.
            assemble: Makes the parts of a bundle from candidates.
            objective: The measurement by which engines are compared.
            mixed: Whether every executable has the engine that calls it fastest.
            workers: Compilations at a time.
            processes: Starts the measuring processes.
            on_step: Called with the steps done, and the number of steps.

        Raises CompileError: AOTC-E911 this host cannot run the target, E912 the process crashed.
        """


type Tuning = Tuner | Recorded

type BeforePacking = Callable[[Sequence[TargetParts]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The options of a build, which trial builds share.

    Attributes:
        form: An archive, or an OCI layout folder.
        targets: Targets to build for instead of the manifest's.
        signer: The signer of the provenance; an unsigned bundle does not load.
        jobs: Compilations at a time; by default one for each CPU of this process.
        on_stage: Called as work advances.
        on_output: Called with the program's output, and the traceback if it raised.
        on_done: Called as a task ends, from any thread.
        tuning: Measure candidates on this host, or take the choices of a tuning file.
        save_tuning: A path for the tuning file.
        precisions: Those of entry points, instead of what `tuning` chooses.
        cache: The results of earlier builds; none by default.
        compilers: The compilers; by default in processes of this host.
        keep_going: After a failure, build the independent rest, then raise all findings at once.
        builder: The URI of the builder in the provenance.
        sbom: A path for the bill of materials, signed or not, in addition to the bundle's copy.
        card: A model card, which becomes the asset `card`.
        before_packing: Called with what is about to be written; an exception ends the build.
    """

    form: Form = Form.ARCHIVE
    targets: Sequence[str] = ()
    signer: Signer | None = None
    jobs: int | None = None
    on_stage: OnStage = lambda stage, done, total: None
    on_output: OnOutput = lambda process, text: None
    on_done: OnDone = lambda done: None
    tuning: Tuning | None = None
    save_tuning: Path | None = None
    precisions: Mapping[str, ChosenPrecision] | None = None
    cache: LocalStore | None = None
    compilers: OpenCompilers = on_this_host
    keep_going: bool = False
    builder: str | None = None
    sbom: Path | None = None
    card: Path | None = None
    before_packing: BeforePacking | None = None
