"""Describes the arrays of an Orbax checkpoint, or writes their bytes, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aotc.base.errors import refusal
from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture.orbax_checkpoint import INVALID, Described, Job

BAND_BYTES = 32 * 2**20
"""How much of an array is read at once, unless one of its chunks is larger."""


def work(job: Job, progress: Progress) -> Any:
    """What each array is; or their bytes in files, little-endian and in C order. Raises
    CaptureError (AOTC-E830).
    """
    # Native code reads files that anybody may have made; its threads begin after this.
    confined_process.keep_secret(*job.secrets)
    confined_process.begin(job.apart)
    import tensorstore

    # One band at a time is in memory, and nothing is kept.
    limits = {"cache_pool": {"total_bytes_limit": 0}}
    context = tensorstore.Context(limits)
    if job.into:
        for number, name in enumerate(job.names):
            progress.started(f"reading {name}")
            try:
                _write(_opened(tensorstore, job, name, context), Path(job.into) / str(number))
            except ValueError as error:
                told = _told(job, name, error)
                raise refusal("AOTC-E830", job.folder, told, cause=INVALID) from error
        return None
    return [_described(tensorstore, job, name, context) for name in job.names]


def _described(tensorstore: Any, job: Job, name: str, context: Any) -> Described:
    try:
        array = _opened(tensorstore, job, name, context)
    except ValueError as error:
        return Described("", (), _told(job, "not to be opened", error))
    if any(array.domain.origin):
        return Described("", (), "an array that does not begin at 0")
    return Described(array.dtype.name, tuple(array.shape), "")


def _opened(tensorstore: Any, job: Job, name: str, context: Any) -> Any:
    files = {"driver": "file", "path": f"{job.folder}/" + ("" if job.ocdbt else f"{name}/")}
    database = {"driver": "ocdbt", "base": files, "path": f"{name}/"}
    spec = {
        "driver": "zarr3" if job.zarr3 else "zarr",
        "kvstore": database if job.ocdbt else files,
        "fill_missing_data_reads": False,
    }
    return tensorstore.open(spec, open=True, read=True, context=context).result()


def _write(array: Any, path: Path) -> None:
    """In bands of whole chunks along the first axis."""
    with path.open("wb") as file:
        if array.rank == 0 or array.size == 0:
            file.write(array.read(order="C").result().tobytes())
            return
        row = array.size // array.shape[0] * array.dtype.numpy_dtype.itemsize
        chunk = (array.chunk_layout.read_chunk.shape or array.shape)[0] or 1
        rows = max(chunk, BAND_BYTES // row // chunk * chunk)
        for start in range(0, array.shape[0], rows):
            band = array[start : min(start + rows, array.shape[0])].read(order="C").result()
            file.write(band.data if band.dtype.kind != "V" else band.tobytes())


def _told(job: Job, what: str, error: ValueError) -> str:
    """The first sentence of what tensorstore says, without the specification that follows it; files
    by their places in the checkpoint.
    """
    said = str(error).partition(" [")[0].replace(f"{job.folder}/", "")
    return f"{what}: {said[:300]}"


if __name__ == "__main__":
    answer(Job, work)
