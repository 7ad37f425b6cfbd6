"""`aotc.pipeline.children.recorded_worker` for a zygote that has imported what the recorder needs,
and nothing of what programs import.

Each program has a process of its own, as from a command; none pays for what Python and the recorder
take to start.
"""

from __future__ import annotations

import os
import sys

from aotc.base.workers.worker_child import Progress, answer
from aotc.pipeline.children.recorded_worker import Job, record


def prepare() -> None:
    """Nothing more: what is imported from here on is the program's."""


def alone(job: Job, progress: Progress) -> None:
    """With an import path as if the variables had been there from the beginning."""
    sys.path.remove(os.path.dirname(__file__))  # noqa: PTH120 - as it stands there
    sys.path[:0] = job.options["PYTHONPATH"].split(os.pathsep)
    del sys.modules[__name__]  # which no program has
    record(job, progress)


def main() -> None:
    answer(Job, alone)


# They are on the stack of all that happens, and no code of the program's; nor are files of the
# toolchain, which the recorder knows by their folder.
for function in (alone, main):
    function.__code__ = function.__code__.replace(co_filename="<recorded_alone>")
