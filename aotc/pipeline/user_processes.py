"""The two processes of a build that run the user's code: the capture, and plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod

from aotc.base import constants
from aotc.base.errors import raise_if
from aotc.base.stages import CapturedEntryPoint, CapturedProgram
from aotc.base.workers import confined_process, worker_environment
from aotc.base.workers.confined_process import Apart
from aotc.base.workers.forked_workers import kept
from aotc.capture.source_files import changed
from aotc.check import parity_process
from aotc.config.build_manifest import BuildManifest, InputLike, leaf_paths
from aotc.config.checkpoint_files import files_of
from aotc.config.manifest_sections import program_sections
from aotc.pipeline.cache.cache_keys import Kind
from aotc.pipeline.cache.cached_tasks import Tasks
from aotc.pipeline.children import user_process
from aotc.pipeline.children.recorded_worker import Job
from aotc.pipeline.kept_weights import KeptWeights
from aotc.pipeline.scratch_folder import ProgramJob, Scratch, digest_of, variables_file
from aotc.pipeline.tasks import code_identity
from aotc.pipeline.tasks.task_failures import Failures
from aotc.pipeline.tasks.task_pool import Workers
from aotc.pipeline.tasks.task_progress import OnStage
from aotc.pipeline.watching import remembered_tasks
from aotc.pipeline.watching.recorded_reads import native_parts
from aotc.pipeline.watching.remembered_tasks import Worker
from aotc.pipeline.weights_progress import waited_for
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError, Finding
from aotc_runtime.system.bundle_files import read_file

type OnOutput = Callable[[str, str], None]
"""Given what a process printed that ran the user's code: the name of the process, and the text."""

type Keep = Callable[[], None]
"""Puts the result of a task into the cache; called once the result is known to be reproducible."""

RECORDED = "aotc.pipeline.children.recorded_worker"
"""The module of both processes."""

CAPTURED = (
    *("program.msgpack", "read.msgpack", variables_file(constants.CAPTURE_WORKER)),
    *("inputs.*.safetensors", "results.*.safetensors", "weights.*/*.safetensors"),
)
_NAMES = {
    "program.msgpack": "the captured program",
    "read.msgpack": "the list of files that the program read",
    variables_file(constants.CAPTURE_WORKER): "the list of variables that the program read",
    "trials.msgpack": "the plan of calls to try",
}
"""Files of which a build has one, as `--explain` calls them."""

REFERRED = (
    *("fixture.*.safetensors", "plain.*.msgpack", "call.*.safetensors", "outcomes.msgpack"),
    *("value.*.safetensors", "values.msgpack"),
    variables_file(constants.REFERENCE_WORKER),
)
"""Patterns of the files that the reference process leaves in the scratch folder."""


@dataclass(frozen=True, slots=True)
class Source:
    """The program to run."""

    job: ProgramJob
    scratch: Scratch

    def worker(
        self, kind: Kind, module: str, leaves: tuple[str, ...], more: Mapping[str, str]
    ) -> Worker:
        """The process of a task. leaves: patterns of the files that it writes.  more: variables to
        add to the environment that every such process has.
        """
        variables = _variables(more)
        known = {
            **program_sections(self.job.manifest.text),
            "targets": ", ".join(self.job.targets),
            **code_identity.toolchain_code(),
            **code_identity.host_parts(),
            **code_identity.library_parts(variables),
            **native_parts(variables, self.job.manifest.root),
        }
        root, folder = self.job.manifest.root, self.scratch.folder
        return Worker(kind, module, root, folder, known, leaves, variables)

    def execute(
        self,
        worker: Worker,
        workers: Workers,
        *,
        failure_code: str,
        doing: str,
        on_finished: Callable[[str], None] = lambda item: None,
        on_output: OnOutput,
    ) -> None:
        """Run the process to its end, as `child.run`. Raises CaptureError (AOTC-E840) besides, if
        the build manifest is then another file than the one that was read.
        """
        manifest, folder = str(self.job.manifest.path), str(worker.folder)
        shared = _variables({})
        kept_apart = apart_of(self.job.manifest, folder)
        options = {k: v for k, v in worker.environment.items() if shared.get(k) != v}
        user_process.run(
            kept(RECORDED),
            Job(
                worker.module,
                manifest,
                folder,
                self.job.encode(),
                options,
                kept_apart,
                confined_process.secrets(),
            ),
            type(None),
            within=worker.folder,
            seconds=None if kept_apart is None else kept_apart.seconds,
            variables=shared,
            failure_code=failure_code,
            doing=doing,
            processes=workers.processes,
            on_finished=on_finished,
            on_output=lambda text: on_output(str(worker.kind), text),
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
) -> tuple[CapturedProgram, Keep]:
    """Trace every entry point, or take from the cache what an earlier build traced.

    on_captured: given each entry point as soon as it is traced.  failures: if it collects them,
    those of entry points that cannot be captured, without which the program is returned then.
    Raises CaptureError, BuildManifestError.
    """
    source = replace(source, job=replace(source.job, keeps_going=failures.are_collected))
    total, done = len(source.job.manifest.entry_points), 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        if done < total:  # after the last one, fixtures are made and weights written
            on_stage("capture", done, total)
        on_captured(source.scratch.read_entry_point(name))

    variables = {
        constants.CONSTANTS_AS_ARGUMENTS: "1",
        constants.CPU_DEVICES: str(prod(source.job.manifest.mesh.values())),
    }
    worker = source.worker(Kind.CAPTURE, constants.CAPTURE_WORKER, CAPTURED, variables)

    weights = KeptWeights(tasks.store, source.job.manifest.path)
    weights.learn()

    def trace() -> None:
        if workers.jobs > 1:
            parity_process.begin()  # which has imported its libraries by then
        weights.lay_out(source.scratch)
        source.execute(
            worker,
            workers,
            failure_code="AOTC-E835",
            doing="the capture process",
            on_finished=advance,
            on_output=on_output,
        )

    on_stage("capture", 0, total)
    captured = workers.submit(lambda: remembered_tasks.run(worker, tasks, trace), urgent=True)
    try:
        keep = waited_for(captured, source.scratch, source.job.manifest, on_stage)
    except AotcError as error:
        if not failures.are_collected or not source.scratch.program.exists():
            raise
        failures.add(error.findings)
        return source.scratch.read_program(), remembered_tasks.nothing
    on_stage("capture", total, total)

    def keep_all() -> None:
        keep()
        weights.keep(source.scratch)

    return replace(source.scratch.read_program(), read=source.scratch.read_files()), keep_all


def reference(
    source: Source,
    program: CapturedProgram,
    tasks: Tasks,
    workers: Workers,
    on_output: OnOutput,
    on_trial: Callable[[str], None] = lambda trial: None,
) -> Future[Keep]:
    """Begin to run the fixtures and trials in plain JAX; the future's result keeps what it found.

    on_trial: called with the entry point after each trial.
    The future raises CaptureError, ParityError.
    """
    plain = source.worker(Kind.REFERENCE, constants.REFERENCE_WORKER, REFERRED, {})

    def compute() -> Keep:
        job = replace(source.job, threads=max(1, workers.jobs - 1))
        worker = replace(plain, known={**plain.known, **dict(_given(source.scratch, program))})
        return remembered_tasks.run(
            worker,
            tasks,
            lambda: replace(source, job=job).execute(
                worker,
                workers,
                failure_code="AOTC-E836",
                doing="plain JAX on the fixtures",
                on_finished=on_trial,
                on_output=on_output,
            ),
        )

    return workers.submit(compute, urgent=True)


def runs_functions(manifest: BuildManifest) -> bool:
    """Whether users wrote part of the program, which may need the network, and any resources."""
    entry_points = manifest.entry_points.values()
    likes = (
        leaf
        for spec in entry_points
        for name, tree in spec.inputs.items()
        for _, leaf in leaf_paths(tree, name)
    )
    written = any(spec.source is None for spec in entry_points) or bool(manifest.weights)
    return written or any(isinstance(leaf, InputLike) for leaf in likes)


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


def _variables(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that runs the program. more: as of `Source.worker`."""
    return worker_environment.clean({"JAX_PLATFORMS": "cpu", **more})


def _edited(manifest: BuildManifest) -> Iterator[Finding]:
    try:
        now = sha256(read_file(manifest.path, len(manifest.text)))
    except OSError as error:
        now = error.strerror or str(error)
    return changed({manifest.path.name: sha256(manifest.text)}, [(manifest.path.name, now)])


def _given(scratch: Scratch, program: CapturedProgram) -> Iterator[tuple[str, str]]:
    """The files that the reference process reads, as parts of its key, named for people."""
    given = [(_NAMES[path.name], path) for path in map(scratch.folder.joinpath, _NAMES)]
    for kind, path_of in (
        ("fixture inputs", scratch.inputs),
        ("recorded results", scratch.results),
    ):
        given += [
            (f"{kind} of {name}, profile {number}", path_of(key))
            for name, entry_point in program.entry_points.items()
            for number, key in enumerate(entry_point.by_key, 1)
        ]
    yield from ((name, sha256(path.read_bytes())) for name, path in given if path.exists())
    for name in program.weights:
        for number, path in enumerate(scratch.weights(name), 1):
            yield f"weights {name}, part {number}", digest_of(path)
