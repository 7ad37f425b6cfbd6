"""The two processes of a build that run the user's code: the capture, and plain JAX.

The capture runs in every build. What it makes is content, by which all later tasks are looked up:
the results of plain JAX by the modules of the program at every size at which that runs it.
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod

import msgspec
from msgspec import Struct

from aotc.base import constants
from aotc.base.child_processes import Processes
from aotc.base.errors import refusal
from aotc.base.evidence import Coverage
from aotc.base.source_locations import EntryPointLines
from aotc.base.stages import UNTRACED, CapturedEntryPoint, CapturedProgram
from aotc.base.workers import worker_environment, worker_parent
from aotc.base.workers.confined_process import SECONDS_VARIABLE, ProcessLimits
from aotc.base.workers.forked_workers import zygotes_of
from aotc.check import parity_process
from aotc.check.trial_records import plan_file
from aotc.config.build_manifest import BuildManifest, InputLike
from aotc.config.checkpoint_files import files_of
from aotc.pipeline import code_identity
from aotc.pipeline.cached_tasks import Kind, Task, Tasks, keep_files, restore_files
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.scratch_folder import ProgramJob, Scratch, digest_of, scratch_folder
from aotc.pipeline.task_pool import Failures, Workers
from aotc.pipeline.task_progress import OnStage
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError
from aotc_runtime.schema.pytrees import NamedTupleNode, RecordNode, Tree, children
from aotc_runtime.system.bundle_files import read_file

type OnOutput = Callable[[str, str], None]
"""Given what a process printed that ran the user's code: the name of the process, and the text."""

PROGRAM_WORKER = "aotc.pipeline.children.program_worker"
"""The module of both processes."""

REFERRED = ("fixture.*.safetensors", "plain.*.msgpack", "call.*.safetensors", "tried.msgpack")
"""Patterns of the files that the reference process leaves in the scratch folder."""

PACKAGES = ("jax", "jaxlib", "ml_dtypes", "msgspec", "numpy", "scipy")
"""Packages that compute the reference, whose files are parts of its key."""

LINES_SHOWN = 15


@contextmanager
def crash_refused(code: str, doing: str, limits: ProcessLimits | None) -> Iterator[None]:
    """Report a crash of a process with the user's code, with its work and last output.

    `doing` names the process in messages: "the capture process".
    """
    try:
        yield
    except worker_parent.CrashedError as crash:
        if limits is not None and (crash.late or crash.status == -signal.SIGXCPU):
            found = f"more than {limits.seconds} s"
            found += f" while {crash.doing}" if crash.doing else ""
            hint = f"set {SECONDS_VARIABLE} if it needs longer"
            raise refusal(code, doing, found, hint=hint) from crash
        raise crash.refusal(code, doing, LINES_SHOWN) from crash


def ask[A](
    module: str,
    job: Struct,
    answer_type: type[A],
    *,
    variables: Mapping[str, str],
    doing: str,
    limits: Callable[[str], ProcessLimits | None] = lambda folder: None,
    on_output: Callable[[str], None] = worker_parent.ignore_text,
) -> A:
    """Run a job in a worker module, for a command that runs the user's code once.

    A zygote forks it, which successive commands of this process share.

    Args:
        module: The worker.
        job: Its job.
        answer_type: Type of the result.
        variables: Added to the environment of every child.
        doing: For messages.
        limits: Takes the folder for temporary files and returns the child's limits, which are added
            to the job as `limits`; None for no limits.
        on_output: Called at the end with the child's output.

    Raises:
        AotcError: The child's own findings.
        CaptureError: AOTC-E835 for a crash.
    """
    with scratch_folder() as folder:
        found = limits(str(folder))
        if found is not None:
            job = msgspec.structs.replace(job, limits=found)
        with crash_refused("AOTC-E835", doing, found):
            return worker_parent.run(
                zygotes_of(module),
                job,
                answer_type,
                within=folder,
                environment=worker_environment.clean({"JAX_PLATFORMS": "cpu", **variables}),
                processes=Processes(),
                seconds=None if found is None else found.seconds,
                on_said=on_output,
            )


@dataclass(frozen=True, slots=True)
class Child:
    """A process that runs the program.

    `kind` is its task's, `module` has its `work`; the others are arguments of `crash_refused`.
    """

    kind: Kind
    module: str
    failure_code: str
    doing: str


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
        options: Mapping[str, str],
        workers: Workers,
        on_output: OnOutput,
        on_finished: Callable[[str], None],
    ) -> None:
        """Run the process to its end; `options` are more variables for jax.

        Raises its findings, CaptureError for a crash, AOTC-E840 for a changed manifest.
        """
        folder, manifest = self.scratch.folder, self.job.manifest
        limits = limits_of(manifest, str(folder))
        job = Job(child.module, str(folder), self.job.encode(), dict(options), limits)
        with crash_refused(child.failure_code, child.doing, limits):
            worker_parent.run(
                zygotes_of(PROGRAM_WORKER),
                job,
                type(None),
                within=folder,
                environment=_variables(),
                processes=workers.processes,
                seconds=None if limits is None else limits.seconds,
                on_finished=on_finished,
                on_said=lambda text: on_output(str(child.kind), text),
            )
        read = sha256(manifest.text)
        try:
            now = sha256(read_file(manifest.path, len(manifest.text)))
        except OSError as error:
            now = error.strerror or str(error)
        if now != read:
            raise refusal("AOTC-E840", manifest.path.name, f"{read}, then {now}")

    def parts(self) -> dict[str, str]:
        """Return parts of the keys of both tasks: what the manifest says, and the toolchain."""
        code = code_identity.toolchain_code()
        chosen = {
            f"precision of {name}": sha256(repr((each.precision, each.keep)).encode())
            for name, each in self.job.manifest.chosen.items()
        }
        return {**code, **code_identity.program_sections(self.job.manifest.text), **chosen}


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

    `on_captured` is called with each entry point as soon as it is traced. If `failures` collects,
    it gets those of entry points that are then left out. Raises CaptureError, BuildManifestError.
    """
    source = replace(source, job=replace(source.job, keeps_going=failures.are_collected))
    manifest, scratch = source.job.manifest, source.scratch
    total, done = len(manifest.entry_points), 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        if done < total:  # after the last one, fixtures are made and weights written
            on_stage("capture", done, total)
        on_captured(scratch.entry_point(name).read())

    options = {
        constants.CONSTANTS_AS_ARGUMENTS: "1",
        constants.CPU_DEVICES: str(prod(manifest.mesh.values())),
    }

    def trace() -> CapturedProgram:
        started, parts = tasks.clock(), source.parts()
        source.execute(CAPTURE, options, workers, on_output, advance)
        seconds = tasks.clock() - started
        program = _read_program(scratch)
        parts |= _read_parts(scratch, program)
        tasks.note(Task(Kind.CAPTURE, "", parts), cached=False, seconds=seconds)
        return program

    on_stage("capture", 0, total)
    captured = workers.submit(trace, urgent=True)
    try:
        program = captured.result()
    except AotcError as error:
        if not failures.are_collected or not scratch.program.path.exists():
            raise
        failures.add(error.findings)
        return _read_program(scratch)
    on_stage("capture", total, total)
    return program


def _read_program(scratch: Scratch) -> CapturedProgram:
    return replace(scratch.program.read(), read=scratch.reads.read().files)


def reference(
    source: Source,
    program: CapturedProgram,
    tasks: Tasks,
    workers: Workers,
    on_output: OnOutput,
    on_trial: Callable[[str], None] = lambda trial: None,
) -> Future[None]:
    """Begin to run the fixtures and trials in plain JAX, or take its results from the cache.

    `on_trial` is called with the entry point after each trial.
    The future raises CaptureError, ParityError.
    """

    def compute() -> None:
        folder = source.scratch.folder
        task = Task(Kind.REFERENCE, "", dict(reference_parts(source, program)))
        every = program.entry_points.values()
        is_keyed = not any(UNTRACED in each.uncompiled.values() for each in every)
        if is_keyed and restore_files(task, folder, tasks):
            tasks.note(task, cached=True)
            return
        if workers.jobs > 1:
            parity_process.begin()  # which has imported its libraries by the time of parity
        job = replace(source.job, threads=max(1, workers.jobs - 1))
        started = tasks.clock()
        replace(source, job=job).execute(REFERENCE, {}, workers, on_output, on_trial)
        tasks.note(task, cached=False, seconds=tasks.clock() - started)
        if is_keyed:
            keep_files(task, folder, REFERRED, tasks)

    return workers.submit(compute, urgent=True)


def runs_functions(manifest: BuildManifest) -> bool:
    """Return whether users wrote part of the program.

    These parts are entry points, `init`, `like`, and functions of evaluations. Such a program may
    need the network and any resources. Weights of files alone run nothing.
    """
    written = any(spec.source is None for spec in manifest.entry_points.values())
    written |= any(spec.init is not None for spec in manifest.weights.values())
    evaluations = (spec.evaluation for spec in manifest.entry_points.values())
    written |= any(each is not None and bool(each.functions) for each in evaluations)
    return written or _has_like_inputs(manifest)


def _has_like_inputs(manifest: BuildManifest) -> bool:
    leaves = (leaf for spec in manifest.entry_points.values() for leaf in spec.leaves.values())
    return any(isinstance(leaf, InputLike) for leaf in leaves)


def limits_of(manifest: BuildManifest, folder: str) -> ProcessLimits | None:
    """Return the process limits if all of the program is in model files; None otherwise.

    `folder` is for temporary files of the process.
    """
    if runs_functions(manifest):
        return None
    mapped = 0
    for _, named in manifest.files():
        for file in files_of(named):
            with suppress(OSError):
                mapped += file.path.stat().st_size
    return ProcessLimits.from_env(mapped, folder)


def _variables() -> dict[str, str]:
    """Return the environment of a process that runs the program."""
    return worker_environment.clean({"JAX_PLATFORMS": "cpu"})


def _read_parts(scratch: Scratch, program: CapturedProgram) -> dict[str, str]:
    """Return cache key components: packages, files and variables that a capture has read."""
    parts, variables = dict(_package_parts(program)), _variables()
    for name, digest in program.made_from.items():
        parts[f"{'source file' if name.endswith('.py') else 'file'} {name}"] = digest
    for name in scratch.reads.read().variables:
        parts[f"environment {name}"] = code_identity.variable(name, variables)
    return parts


def _package_parts(program: CapturedProgram) -> Iterator[tuple[str, str]]:
    for name, package in program.packages.items():
        yield f"package {name}", package.version
        yield f"files of package {name}", package.files


def reference_parts(source: Source, program: CapturedProgram) -> Iterator[tuple[str, str]]:
    """Yield all that the results of plain JAX depend on.

    They are the program at every size at which it runs, its inputs and weights, and its platform
    (docs/concepts/cache.md has the reasons).
    """
    variables = _variables()
    yield from source.parts().items()
    yield from _package_parts(program)
    yield from code_identity.package_parts(PACKAGES)
    yield from code_identity.host_parts().items()
    yield from code_identity.library_parts(variables).items()
    yield from code_identity.native_parts(variables).items()
    if _shows_classes(source.job.manifest, program):
        yield from _read_parts(source.scratch, program).items()
    yield "options of jax", program.jax_options
    scratch = source.scratch
    for name, entry_point in program.entry_points.items():
        yield f"modules of {name}", _digest_of_modules(entry_point)
    for name in program.weights:
        for number, path in enumerate(scratch.weights(name), 1):
            yield f"weights {name}, part {number}", digest_of(path)
    yield "the plan of calls to try", sha256(plan_file(scratch.folder).path.read_bytes())
    for kind in ("inputs", "results", "expected"):
        for path in sorted(scratch.folder.glob(f"{kind}.*.safetensors")):
            yield f"fixture {path.name.removesuffix('.safetensors')}", sha256(path.read_bytes())


def _digest_of_modules(captured: CapturedEntryPoint) -> str:
    """Return the digest of a captured entry point without source lines, which comments move."""
    plain = replace(captured, lines=EntryPointLines(), coverage=Coverage(), calls={})
    plain = replace(plain, specialized={}, counted={})
    return sha256(msgspec.msgpack.encode(plain))


def _shows_classes(manifest: BuildManifest, program: CapturedProgram) -> bool:
    """Return whether callers see classes of the program.

    The reference records the attributes by which they reach the arrays, which no module has.
    """
    trees = [
        tree
        for entry_point in program.entry_points.values()
        for tree in (entry_point.result, *(each.tree for each in entry_point.parameters))
    ]
    return _has_like_inputs(manifest) or any(map(_holds_class, trees))


def _holds_class(tree: Tree) -> bool:
    return isinstance(tree, NamedTupleNode | RecordNode) or any(map(_holds_class, children(tree)))
