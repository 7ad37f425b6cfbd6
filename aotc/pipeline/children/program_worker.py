"""Runs a worker with the user's code, and records what the program reads during the capture.

Run as `python -m aotc.pipeline.children.program_worker FOLDER`, with the build's scratch folder in
the job. An `aotc.base.workers.zygote` with jax and the workers forks it.
"""

import faulthandler
import importlib
import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from msgspec import Struct, field

from aotc.base.constants import CAPTURE_WORKER, REFERENCE_WORKER
from aotc.base.workers import confined_process, worker_environment
from aotc.base.workers.confined_process import ProcessLimits
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture import source_imports
from aotc.capture.program_reads import Recorder
from aotc.pipeline.scratch_folder import ProgramJob, ProgramReads, Scratch
from aotc_runtime.base.errors import AotcError


class Job(Struct, frozen=True):
    """A worker to run for a build.

    Attributes:
        worker: The module whose `work` is run.
        folder: The scratch folder.
        program: An encoded `ProgramJob`; the worker's own job where it runs no user's code.
        options: Variables for jax, beside those of the process.
        limits: What it may use, where it runs nothing that a user wrote; None otherwise.
        secrets: Files that nothing of a model file may read.
    """

    worker: str
    folder: str
    program: bytes
    options: dict[str, str] = {}
    limits: ProcessLimits | None = None
    secrets: tuple[str, ...] = field(default_factory=confined_process.secrets)


def prepare() -> None:
    """Import what programs need, and read once what is the same for all of them."""
    for worker in (CAPTURE_WORKER, REFERENCE_WORKER):
        importlib.import_module(worker)
    # Not at the top: a worker in a process of its own imports jax with its options.
    from aotc.capture import jax_private
    from aotc.capture.installed_packages import imported_packages
    from aotc.compile.compiler_registry import OWN, kind_of
    from aotc.config.build_manifest import prepare_to_decode

    jax_private.import_for_lowering()
    kind_of(OWN)
    imported_packages()
    prepare_to_decode()


def begin_as_if_alone() -> None:
    """Reset state that a forked process inherits.

    These are seeds of random numbers, and caches of folders that have new files since.
    """
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed()
    importlib.invalidate_caches()


def runs_users_code[**P, R](work: Callable[P, R]) -> Callable[P, R]:
    """Decorate the work of a child process, to print the place of a crash for the parent.

    The user's own traceback is printed after an error, too.
    """

    @wraps(work)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A crash must not take with it what was printed before.
            sys.stdout.reconfigure(line_buffering=True)
        faulthandler.enable(all_threads=False)
        try:
            return work(*args, **kwargs)
        except AotcError as error:
            from aotc.capture import user_exceptions

            user_exceptions.show_cause(error)
            raise

    return wrapped


def run(job: Job, progress: Progress) -> object:
    """Run the worker, and return what it returns. Raises what the worker raises."""
    scratch = Scratch(Path(job.folder))
    confined_process.keep_secret(*job.secrets)
    if job.limits is not None:
        scratch.add_measures(confined_process.begin(job.limits))
    os.environ.update(job.options)
    if "jax" in sys.modules:  # of the zygote
        from aotc.capture import jax_private

        jax_private.take_options(job.options)
        begin_as_if_alone()
    source_imports.install()
    recorder = Recorder(scratch.folder) if job.worker == CAPTURE_WORKER else None
    try:
        work = runs_users_code(importlib.import_module(job.worker).work)
        return work(scratch, job.program, progress)
    finally:  # a capture that refuses some entry points leaves the others
        if recorder is not None:
            _write_read(recorder, scratch, ProgramJob.decode(job.program))


def _write_read(recorder: Recorder, scratch: Scratch, program: ProgramJob) -> None:
    # Not at the top, as above.
    from aotc.capture import project_files
    from aotc.config.checkpoint_files import files_of

    read = recorder.variables()
    known = {name: read[name] for name in read if not worker_environment.decides(name)}
    manifest = program.manifest
    listed = {
        path.resolve()
        for path in (
            manifest.path,
            *(file.path for _, named in manifest.files() for file in files_of(named)),
        )
    }
    root = manifest.path.resolve().parent
    files = project_files.read_by(recorder.files(), root, listed)
    scratch.reads.write(ProgramReads(files, known))


def main() -> None:
    """Do the job."""
    answer(Job, run)


if __name__ == "__main__":
    main()
