"""The two processes of a build that run the user's code: the capture, and plain JAX.

The capture runs in every build. What it makes is content, by which all later tasks are looked up:
the results of plain JAX by the modules of the program at every size at which that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod

import msgspec

from aotc.base import constants
from aotc.base.errors import raise_if
from aotc.base.evidence import Coverage
from aotc.base.source_locations import EntryPointLines
from aotc.base.stages import UNTRACED, CapturedEntryPoint, CapturedProgram
from aotc.base.workers import confined_process, worker_environment
from aotc.base.workers.confined_process import Apart
from aotc.base.workers.forked_workers import kept
from aotc.capture.file_digests import changed
from aotc.check import parity_process
from aotc.check.padding import trial_files
from aotc.config.build_manifest import BuildManifest, InputLike, leaf_paths
from aotc.config.checkpoint_files import files_of
from aotc.config.manifest_sections import program_sections
from aotc.pipeline.cache import task_files
from aotc.pipeline.cache.cache_keys import Kind, Task
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.children import user_process
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.kept_weights import KeptWeights
from aotc.pipeline.scratch_folder import ProgramJob, Scratch, digest_of
from aotc.pipeline.tasks import code_identity
from aotc.pipeline.tasks.task_failures import Failures
from aotc.pipeline.tasks.task_pool import Workers
from aotc.pipeline.tasks.task_progress import OnStage
from aotc.pipeline.weights_progress import waited_for
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.schema.pytrees import NamedTupleNode, RecordNode, Tree, children
from aotc_runtime.system.bundle_files import read_file

type OnOutput = Callable[[str, str], None]
"""Given what a process printed that ran the user's code: the name of the process, and the text."""

PROGRAM_WORKER = "aotc.pipeline.children.program_worker"
"""The module of both processes."""

REFERRED = (
    *("fixture.*.safetensors", "plain.*.msgpack", "call.*.safetensors", "outcomes.msgpack"),
    *("value.*.safetensors", "values.msgpack"),
)
"""Patterns of the files that the reference process leaves in the scratch folder."""

PACKAGES = ("jax", "jaxlib", "ml_dtypes", "msgspec", "numpy", "scipy")
"""Packages that compute the reference, whose files are parts of its key."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process that runs the program. kind: of its task.  module: whose `work` it calls.
    failure_code, doing: of `user_process.run`.  options: variables for jax, beside those that both
    processes have.
    """

    kind: Kind
    module: str
    failure_code: str
    doing: str
    options: Mapping[str, str] = field(default_factory=dict)


CAPTURE = Child(Kind.CAPTURE, constants.CAPTURE_WORKER, "AOTC-E835", "the capture process")
REFERENCE = Child(
    Kind.REFERENCE, constants.REFERENCE_WORKER, "AOTC-E836", "plain JAX on the fixtures"
)


@dataclass(frozen=True, slots=True)
class Source:
    """The program to run."""

    job: ProgramJob
    scratch: Scratch

    def execute(
        self,
        child: Child,
        workers: Workers,
        on_output: OnOutput,
        on_finished: Callable[[str], None],
    ) -> None:
        """Run the process to its end, as `user_process.run`. Raises CaptureError (AOTC-E840)
        besides, if the build manifest is then another file than the one that was read.
        """
        folder = self.scratch.folder
        kept_apart = apart_of(self.job.manifest, str(folder))
        user_process.run(
            kept(PROGRAM_WORKER),
            Job(
                child.module,
                str(folder),
                self.job.encode(),
                dict(child.options),
                kept_apart,
                confined_process.secrets(),
            ),
            type(None),
            within=folder,
            seconds=None if kept_apart is None else kept_apart.seconds,
            variables=_variables(),
            failure_code=child.failure_code,
            doing=child.doing,
            processes=workers.processes,
            on_finished=on_finished,
            on_output=lambda text: on_output(str(child.kind), text),
        )
        raise_if(_edited(self.job.manifest))


def capture(
    source: Source,
    tasks: Tasks,
    workers: Workers,
    on_captured: Callable[[CapturedEntryPoint], None],
    on_stage: OnStage,
    on_output: OnOutput,
    failures: Failures,
) -> CapturedProgram:
    """Trace every entry point, in every build.

    on_captured: given each entry point as soon as it is traced.  failures: if it collects them,
    those of entry points that cannot be captured, without which the program is returned then.
    Raises CaptureError, BuildManifestError.
    """
    source = replace(source, job=replace(source.job, keeps_going=failures.are_collected))
    manifest, scratch = source.job.manifest, source.scratch
    total, done = len(manifest.entry_points), 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        if done < total:  # after the last one, fixtures are made and weights written
            on_stage("capture", done, total)
        on_captured(scratch.read_entry_point(name))

    options = {
        constants.CONSTANTS_AS_ARGUMENTS: "1",
        constants.CPU_DEVICES: str(prod(manifest.mesh.values())),
    }
    weights = KeptWeights(tasks.store, manifest.path)
    weights.learn()

    def trace() -> CapturedProgram:
        with tasks.attempt(Kind.CAPTURE, ""):
            started = tasks.clock()
            weights.lay_out(scratch)
            source.execute(replace(CAPTURE, options=options), workers, on_output, advance)
            seconds = tasks.clock() - started
            program = _captured(scratch)
            parts = dict(_read_parts(source, program))
            tasks.note(Task(Kind.CAPTURE, "", parts), cached=False, seconds=seconds)
        weights.keep(scratch)
        return program

    on_stage("capture", 0, total)
    captured = workers.submit(trace, urgent=True)
    try:
        program = waited_for(captured, scratch, manifest, on_stage)
    except AotcError as error:
        if not failures.are_collected or not scratch.program.exists():
            raise
        failures.add(error.findings)
        return _captured(scratch)
    on_stage("capture", total, total)
    return program


def _captured(scratch: Scratch) -> CapturedProgram:
    return replace(scratch.read_program(), read=scratch.read_files())


def reference(
    source: Source,
    program: CapturedProgram,
    tasks: Tasks,
    workers: Workers,
    on_output: OnOutput,
    on_trial: Callable[[str], None] = lambda trial: None,
) -> Future[None]:
    """Begin to run the fixtures and trials in plain JAX, or take its results from the cache.

    on_trial: called with the entry point after each trial.
    The future raises CaptureError, ParityError.
    """

    def compute() -> None:
        folder = source.scratch.folder
        task = Task(Kind.REFERENCE, "", dict(_reference_parts(source, program)))
        with tasks.attempt(Kind.REFERENCE, ""):
            every = program.entry_points.values()
            is_keyed = not any(UNTRACED in each.uncompiled.values() for each in every)
            if is_keyed and task_files.restore(task, folder, tasks):
                tasks.note(task, cached=True)
                return
            if workers.jobs > 1:
                parity_process.begin()  # which has imported its libraries by the time of parity
            job = replace(source.job, threads=max(1, workers.jobs - 1))
            started = tasks.clock()
            replace(source, job=job).execute(REFERENCE, workers, on_output, on_trial)
            tasks.note(task, cached=False, seconds=tasks.clock() - started)
            if is_keyed:
                task_files.keep(task, folder, REFERRED, tasks)

    return workers.submit(compute, urgent=True)


def runs_functions(manifest: BuildManifest) -> bool:
    """Whether users wrote part of the program, which may need the network, and any resources."""
    written = any(spec.source is None for spec in manifest.entry_points.values())
    return written or bool(manifest.weights) or _has_like_inputs(manifest)


def _has_like_inputs(manifest: BuildManifest) -> bool:
    return any(
        isinstance(leaf, InputLike)
        for spec in manifest.entry_points.values()
        for name, tree in spec.inputs.items()
        for _, leaf in leaf_paths(tree, name)
    )


def apart_of(manifest: BuildManifest, folder: str) -> Apart | None:
    """What the process may use if all of the program is in model files; None otherwise.

    folder: for its temporary files.
    """
    if runs_functions(manifest):
        return None
    mapped = 0
    for named in manifest.files():
        for file in files_of(named):
            with suppress(OSError):
                mapped += file.path.stat().st_size
    return Apart.stated(mapped, folder)


def _variables() -> dict[str, str]:
    """The environment of a process that runs the program."""
    return worker_environment.clean({"JAX_PLATFORMS": "cpu"})


def _edited(manifest: BuildManifest) -> Iterator[Finding]:
    try:
        now = sha256(read_file(manifest.path, len(manifest.text)))
    except OSError as error:
        now = error.strerror or str(error)
    return changed({manifest.path.name: sha256(manifest.text)}, [(manifest.path.name, now)])


def _read_parts(source: Source, program: CapturedProgram) -> Iterator[tuple[str, str]]:
    """What a capture has read: the manifest, the toolchain, files, packages, variables."""
    yield from program_sections(source.job.manifest.text).items()
    yield from code_identity.toolchain_code().items()
    yield from _package_parts(program)
    for name, digest in program.made_from.items():
        yield f"{'source file' if name.endswith('.py') else 'file'} {name}", digest
    variables = _variables()
    for name in source.scratch.read_variables():
        yield f"environment {name}", code_identity.variable(name, variables)


def _package_parts(program: CapturedProgram) -> Iterator[tuple[str, str]]:
    for name, package in program.packages.items():
        yield f"package {name}", package.version
        yield f"files of package {name}", package.files


def _reference_parts(source: Source, program: CapturedProgram) -> Iterator[tuple[str, str]]:
    """All that the results of plain JAX depend on: the program at every size at which it runs, its
    inputs and weights, and what it runs on (docs/build-engine.md says why that is all).
    """
    variables = _variables()
    yield from program_sections(source.job.manifest.text).items()
    yield from code_identity.toolchain_code().items()
    yield from _package_parts(program)
    yield from code_identity.package_parts(PACKAGES)
    yield from code_identity.host_parts().items()
    yield from code_identity.library_parts(variables).items()
    yield from code_identity.native_parts(variables).items()
    if _shows_classes(source.job.manifest, program):
        yield from _read_parts(source, program)
    yield "options of jax", program.jax_options
    scratch = source.scratch
    for name, entry_point in program.entry_points.items():
        yield f"modules of {name}", _digest_of_modules(entry_point)
    for name in program.weights:
        for number, path in enumerate(scratch.weights(name), 1):
            yield f"weights {name}, part {number}", digest_of(path)
    yield "the plan of calls to try", sha256(trial_files.plan_file(scratch.folder).read_bytes())
    for kind in ("inputs", "results", "expected"):
        for path in sorted(scratch.folder.glob(f"{kind}.*.safetensors")):
            yield f"fixture {path.name.removesuffix('.safetensors')}", sha256(path.read_bytes())


def _digest_of_modules(captured: CapturedEntryPoint) -> str:
    """The digest of everything that was captured of an entry point, without what names lines of the
    program: a comment moves them.
    """
    plain = replace(captured, lines=EntryPointLines(), coverage=Coverage(), calls={})
    plain = replace(plain, specialized={}, undetermined={}, counted={})
    return sha256(msgspec.msgpack.encode(plain))


def _shows_classes(manifest: BuildManifest, program: CapturedProgram) -> bool:
    """Whether callers see classes of the program: the reference records by which attributes they
    reach the arrays, which no module says.
    """
    trees = [
        tree
        for entry_point in program.entry_points.values()
        for tree in (entry_point.result, *(each.tree for each in entry_point.parameters))
    ]
    return _has_like_inputs(manifest) or any(map(_holds_class, trees))


def _holds_class(tree: Tree) -> bool:
    return isinstance(tree, NamedTupleNode | RecordNode) or any(map(_holds_class, children(tree)))
