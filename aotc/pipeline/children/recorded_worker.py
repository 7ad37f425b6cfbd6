"""`python -m aotc.pipeline.children.recorded_worker FOLDER`: run a worker that runs the user's
code, and leave in the build's scratch folder what it read.

A zygote that has imported jax and the workers forks it for a build (`aotc.base.workers.zygote`).
What these read while they were imported was recorded there.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import Struct

from aotc.base.constants import CAPTURE_WORKER, REFERENCE_WORKER
from aotc.base.workers import confined_process as apart
from aotc.base.workers import worker_environment
from aotc.base.workers.confined_process import Apart
from aotc.base.workers.worker_child import Progress, answer
from aotc.pipeline.children.user_process import begin_as_if_alone
from aotc.pipeline.scratch_folder import ProgramJob, Scratch
from aotc.pipeline.watching.import_places import path_at
from aotc.pipeline.watching.read_recorder import Recorder
from aotc.pipeline.watching.recorded_reads import Looking
from aotc.pipeline.watching.recording_file import Recording

WORKERS = (CAPTURE_WORKER, REFERENCE_WORKER)


class Job(Struct, frozen=True):
    """worker: the module whose `work` is run.  manifest: path of the build manifest.  folder: the
    scratch folder.  program: an encoded `ProgramJob`.  options: variables for jax that this worker
    has beside those of the process.  apart: what it may use, where it runs nothing that a user
    wrote; None otherwise.  secrets: files that nothing of a model file may read.
    """

    worker: str
    manifest: str
    folder: str
    program: bytes
    options: dict[str, str] = {}
    apart: Apart | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Watched:
    """A process that is watched. variables: as they were before."""

    recorder: Recorder
    variables: Mapping[str, str]

    @classmethod
    def now(cls) -> Watched:
        """From now on."""
        return cls(variables=dict(os.environ), recorder=Recorder())


_prepared: list[Watched] = []


def prepare() -> None:
    """Import what programs need, watch that, and read once what is the same for all of them."""
    watched = Watched.now()
    for worker in WORKERS:
        importlib.import_module(worker)
    # Not before: what they import, jax first, would not have been watched.
    from aotc.capture import jax_private
    from aotc.capture.imported_packages import imported_packages
    from aotc.compile.compiler_registry import platforms
    from aotc.pipeline.tasks.code_identity import package_parts

    jax_private.import_for_lowering()
    watched.recorder.pause()
    platforms()
    # Each program asks for the packages that it has imported, and whether they are as installed.
    for _ in package_parts(tuple(imported_packages())):
        pass
    _prepared.append(watched)


def _forked(watched: Watched, options: Mapping[str, str]) -> Watched:
    """For a program in a process that was forked after all that was imported."""
    from aotc.capture import jax_private

    os.environ.update(options)
    jax_private.take_options(options)
    begin_as_if_alone()
    return replace(watched, variables={**watched.variables, **options})


def _alone(options: Mapping[str, str]) -> Watched:
    """For a program in a process of its own, which imports jax with these options."""
    os.environ.update(options)
    return Watched.now()


def record(job: Job, progress: Progress) -> None:
    """Run the worker, and record what it reads. Raises what the worker raises."""
    manifest, scratch = Path(job.manifest), Scratch(Path(job.folder))
    apart.keep_secret(*job.secrets)
    if job.apart is not None:
        scratch.write_measures(job.worker, apart.begin(job.apart))
    root = manifest.resolve().parent
    watched = _forked(_prepared[0], job.options) if _prepared else _alone(job.options)
    recorder, variables = watched.recorder, watched.variables
    recorder.begin(root, scratch.folder)
    importlib.import_module(job.worker).work(scratch, job.program, progress)
    if scratch.unsteady.exists():
        recorder.refuse(scratch.unsteady.read_text("utf-8"))
    reads = recorder.finish()
    parts = {} if reads.refusals else Looking(root, variables, recorder.path).parts(reads)
    if not reads.refusals and not recorder.is_unchanged():
        reads = msgspec.structs.replace(reads, refusals=("a file changed meanwhile",))
    Recording(reads, dict(parts)).write(scratch.folder, job.worker)
    read = recorder.variables(variables)
    known = {name: read[name] for name in read if not worker_environment.decides(name)}
    scratch.write_variables(job.worker, known)
    if job.worker == CAPTURE_WORKER:
        _write_files(scratch, ProgramJob.decode(job.program), reads.files, root)


def _write_files(scratch: Scratch, program: ProgramJob, opened: Iterable[str], root: Path) -> None:
    # The worker has imported them; before it, they would count as packages that it read.
    from aotc.capture import project_files
    from aotc.config.checkpoint_files import files_of

    manifest = program.manifest
    told = {
        path.resolve()
        for path in (
            manifest.path,
            *(file.path for named in manifest.files() for file in files_of(named)),
        )
    }
    paths = [os.fspath(path_at(name, root)) for name in opened]
    scratch.write_files(project_files.read_by(paths, root, told))


def main() -> None:
    """Do the job."""
    answer(Job, record)


if __name__ == "__main__":
    main()
