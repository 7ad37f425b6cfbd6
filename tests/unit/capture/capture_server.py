"""Does the capture worker's work for each request, in a fork of one process with jax imported.

A request is a line of JSON, the folder with its job; the answer is the worker's exit status. Every
capture has a process of its own, as in a build, and none pays for the import of jax.
"""

import gc
import json
import os
import sys
import traceback
from pathlib import Path

import scipy.linalg  # noqa: F401 - jax imports it to call an exported function

from aotc.base.workers.worker_child import Progress, answer
from aotc.capture import jax_private
from aotc.capture.model_files.frontend_registry import suffixes
from aotc.pipeline.children import capture_worker, program_worker
from aotc.pipeline.children.program_worker import Job
from aotc.pipeline.scratch_folder import Scratch


def capture(job: Job, progress: Progress) -> None:
    jax_private.take_options(job.options)
    work = program_worker.runs_users_code(capture_worker.work)
    work(Scratch(Path(job.folder)), job.program, progress)


def serve_one(folder: str) -> int:
    """In the child: the worker's exit status; what it prints goes to files in the folder."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT, 0o600), descriptor)
    sys.argv = ["capture_worker", folder]
    try:
        answer(Job, capture)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the end of the process reports it
        traceback.print_exc()
        return 1


def main() -> None:
    program_worker.prepare()
    suffixes()
    gc.freeze()  # a fork's collections would copy the pages of what was imported
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = serve_one(json.loads(line))
            sys.stdout.flush()
            os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


if __name__ == "__main__":
    main()
