"""`python -m aotc.frontends.keras.weights_worker FOLDER`: reads HDF5 files, and writes them anew.

A zygote that has imported h5py forks it for each file.
"""

from __future__ import annotations

from pathlib import Path

from aotc.frontends.archive import Damaged, damaged
from aotc.frontends.keras import weights
from aotc.frontends.probe import Job, limit
from aotc.workers.child import Progress, answer


def write_anew(job: Job, progress: Progress) -> None:
    """Raises CaptureError (AOTC-E843) for what is no file of weights."""
    limit(job)
    for number in range(job.count):
        path = Path(job.folder, str(number))
        progress.started(f"reading {job.text}")
        try:
            found = weights.rewritten(path.read_bytes())
        except Damaged as error:
            raise damaged(job.text, error) from error
        path.with_suffix(".read").write_bytes(found)


def prepare() -> None:
    """Import all that reading needs, which the imports above do."""


def main() -> None:
    """Answer the job in the folder that the last argument names."""
    answer(Job, write_anew)


if __name__ == "__main__":
    main()
