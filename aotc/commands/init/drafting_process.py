"""`aotc init`: look at a function, draft a manifest for it, and trace what the manifest says."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from aotc.base.errors import CompileError, refusal
from aotc.base.stages import CapturedProgram
from aotc.base.workers.confined_process import ProcessLimits
from aotc.bundle.write.output_paths import require_new_file
from aotc.commands.init.init_request import Answer, Job, Request, is_model_file
from aotc.commands.init.manifest_draft import Draft, draft, manifest_text, name_of
from aotc.compile.compiler_registry import kind_of, platforms
from aotc.compile.cpu.cpu_kind import ProcessorKind
from aotc.compile.target_files import NATIVE, find_target
from aotc.config.build_manifest import read_build_manifest
from aotc.config.field_types import is_function_reference
from aotc.pipeline import user_processes
from aotc.pipeline.build_notes import decision_notes
from aotc.pipeline.build_plan import resolve_target
from aotc.pipeline.cached_tasks import Tasks
from aotc.pipeline.scratch_folder import ProgramJob, Scratch, scratch_folder
from aotc.pipeline.task_pool import Failures, Workers
from aotc.pipeline.user_processes import Source, ask
from aotc_runtime.schema.bundle_manifest import engine_of

DEFAULT_TARGET = "cpu-x86-64-v3"
PROFILES_MAX = 9
"""Profiles of an entry point with several dimensions that need no note."""

type OnStage = Callable[[str], None]
type OnOutput = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Drafted:
    """A manifest that nothing has traced yet. text: its TOML."""

    path: Path
    draft: Draft
    text: str


def draft_manifest(
    request: Request,
    *,
    output: Path | None = None,
    name: str | None = None,
    entry_point: str | None = None,
    targets: tuple[str, ...] = (),
    force: bool = False,
    on_stage: OnStage = lambda stage: None,
    on_output: OnOutput = lambda text: None,
) -> Drafted:
    """Inspect the function and its example, and draft the manifest; write nothing.

    `output` is NAME.toml in the current folder by default; modules are looked up in its folder.
    With `force`, a file there may be replaced.

    Raises:
        UsageError: AOTC-E081 to E085.
        CaptureError: AOTC-E820, E835.
        BuildManifestError: AOTC-E811 for a target.
    """
    named = name or name_of(request.function)
    path = output or Path(f"{named}.toml")
    if path.is_dir() or ((path.exists() or path.is_symlink()) and not force):
        raise refusal("AOTC-E084", str(path), "a directory" if path.is_dir() else "")
    require_new_file(path)
    root, chosen = path.absolute().parent, targets or (DEFAULT_TARGET,)
    for target in chosen:
        if target != NATIVE:
            find_target(target, root, "--target")
    on_stage("inspecting the function")
    request = _relative_to(request, root)
    is_file = is_model_file(request.function)
    answer = ask(
        "aotc.commands.init.inspect_function_worker",
        Job(str(root), request.function, request.example, tuple(request.likes.values()), is_file),
        Answer,
        variables={},
        doing="the process that imports the function",
        limits=partial(_limits, root / request.function) if is_file else lambda folder: None,
        on_output=on_output,
    )
    drafted = draft(request, answer, name=named, entry_point=entry_point, targets=chosen)
    drafted = replace(drafted, engines=installed_engines())
    return Drafted(path, drafted, manifest_text(drafted))


def installed_engines() -> tuple[str, ...]:
    """Return the engines of processors whose compilers are installed, XLA first."""
    found = []
    for platform in platforms():
        kind = kind_of(platform)
        if isinstance(kind, ProcessorKind):
            with suppress(CompileError):
                kind.backend().toolchain()
                found.append(engine_of(platform))
    return tuple(found)


def _relative_to(request: Request, root: Path) -> Request:
    """Return a request whose files are named as the manifest names them: from its own folder."""

    def beside(source: str) -> str:
        if is_function_reference(source) or Path(source).is_absolute():
            return source
        return Path(os.path.relpath(source, root)).as_posix()

    call = request.recorded
    if call is not None:
        expected = beside(call.expected) if call.expected is not None else None
        call = replace(call, inputs=beside(call.inputs), expected=expected)
    return replace(
        request,
        function=beside(request.function),
        weights={
            name: {kind: beside(text) for kind, text in stated.items()}
            for name, stated in request.weights.items()
        },
        recorded=call,
    )


def _limits(model_file: Path, folder: str) -> ProcessLimits:
    """Return the limits of the process that reads a model file."""
    size = 0
    with suppress(OSError):
        size = model_file.stat().st_size
    return ProcessLimits.from_env(size, folder)


def check(
    drafted: Drafted,
    on_stage: OnStage = lambda stage: None,
    on_output: OnOutput = lambda text: None,
) -> tuple[CapturedProgram, tuple[str, ...]]:
    """Trace the written manifest as a build does; the program, and notes of the draft and of this.

    Raises BuildManifestError, CaptureError.
    """
    on_stage("tracing it")
    manifest = read_build_manifest(drafted.path)
    wanted = {name: manifest.executables(name) for name in manifest.targets}
    targets = {
        name: resolve_target(name, manifest.root, "targets").platform for name in manifest.targets
    }
    job = ProgramJob(manifest, targets, wanted)
    tasks = Tasks(None, {})
    with scratch_folder() as folder, Workers(1) as workers:
        program = user_processes.capture(
            Source(job, Scratch(folder)),
            tasks,
            workers,
            on_captured=lambda captured: None,
            on_stage=lambda stage, done, total: None,
            on_output=lambda process, text: on_output(text),
            failures=Failures(keep_going=False),
        )
    return program, (*drafted.draft.notes, *decision_notes(program), *_many_profiles(program))


def _many_profiles(program: CapturedProgram) -> Iterator[str]:
    for name, entry_point in program.entry_points.items():
        if len(entry_point.dimensions) > 1 and len(entry_point.profiles) > PROFILES_MAX:
            yield (
                f"{name} has {len(entry_point.profiles)} profiles, one for each combination of "
                "sizes, and each is compiled and compared: list fewer sizes under `profiles`"
            )
