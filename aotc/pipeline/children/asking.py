"""A child process that does one job and answers, for commands that run the user's code once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aotc.pipeline.children import child
from aotc.pipeline.children.progress import Progress
from aotc.pipeline.scratch import scratch_folder
from aotc.processes import Processes, end_with_parent

JOB, ANSWER = "job.json", "answer.json"


def ask[A](
    module: str,
    job: Struct,
    answer_type: type[A],
    *,
    variables: Mapping[str, str],
    doing: str,
    on_output: Callable[[str], None] = lambda text: None,
) -> A:
    """Run `python -m module FOLDER` on a job; what that process passes to `answer`.

    FOLDER is a scratch folder.  variables: to add to the environment that every child has.
    doing, on_output: as for `child.run`.
    Raises the child's own findings, CaptureError (AOTC-E835) for a crash.
    """
    with scratch_folder() as folder:
        (folder / JOB).write_bytes(msgspec.json.encode(job))
        child.run(
            module,
            [str(folder)],
            folder,
            child.clean_environment({"JAX_PLATFORMS": "cpu", **variables}),
            failure_code="AOTC-E835",
            doing=doing,
            on_line=lambda _: None,
            on_output=on_output,
            processes=Processes(),
        )
        return msgspec.json.decode((folder / ANSWER).read_bytes(), type=answer_type)


def answer[J](folder: Path, job_type: type[J], find: Callable[[J, Progress], Any]) -> int:
    """In the child: write what `find` makes of the job for the parent. Returns the exit code."""
    end_with_parent()
    job = msgspec.json.decode((folder / JOB).read_bytes(), type=job_type)

    def work(progress: Progress) -> None:
        (folder / ANSWER).write_bytes(msgspec.json.encode(find(job, progress)))

    return child.work(folder, work)
