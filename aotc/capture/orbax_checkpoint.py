"""Weights that Orbax has saved, from a file that `aotc.capture.orbax_worker` writes.

https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpoint_format.html has the format.
"""

import resource
import tempfile
from pathlib import Path

import jax.numpy as jnp

from aotc.base.child_processes import Processes
from aotc.base.errors import refusal
from aotc.base.temporary_files import temporary_folder
from aotc.base.workers import confined_process, worker_environment, worker_parent
from aotc.base.workers.confined_process import ProcessLimits
from aotc.capture.checkpoint_tensors import require_none
from aotc.capture.file_digests import changed_meanwhile
from aotc.capture.orbax_worker import INVALID, Array, Job
from aotc.capture.weight_files import StoredTensor, WeightsFile
from aotc.config.build_manifest import SourceFile
from aotc.config.checkpoint_files import files_below

OTHER_FILES = 512
"""Files that a process has open beside those of a checkpoint."""

LINES_SHOWN = 15


def open_checkpoint(
    source: SourceFile, where: str
) -> tuple[list[WeightsFile], dict[str, StoredTensor]]:
    """Return the files of a checkpoint, and its arrays by their paths in the tree.

    `source` is its `_METADATA`; `where` is for messages.

    Raises:
        CaptureError: AOTC-E830 for a checkpoint that Orbax cannot read, E835 where the process
            that reads it crashes, or needs more memory than it may have, E840 for files that were
            replaced meanwhile.
        OSError: There is no room for the arrays.
    """
    every = [*files_below(source)]
    links = [f"{f.text}: a link, which Orbax does not write" for f in every if f.path.is_symlink()]
    require_none(links, where, cause=INVALID)
    _allow_open_files(len(every))
    files = [WeightsFile(file, where) for file in every]
    with temporary_folder(Path(tempfile.gettempdir()), "aotc-orbax-", "") as folder:
        into = folder / "arrays"
        job = Job(
            metadata=str(source.path),
            text=source.text,
            where=where,
            into=str(into),
            limits=ProcessLimits.stated(sum(file.size for file in files), str(folder)),
            secrets=confined_process.secrets(),
        )
        try:
            arrays = worker_parent.run(
                worker_parent.module("aotc.capture.orbax_worker"),
                job,
                list[Array],
                within=folder,
                environment=worker_environment.bare(JAX_PLATFORMS="cpu"),
                processes=Processes(),
                seconds=job.limits.seconds,
            )
        except worker_parent.CrashedError as crash:
            cause = "weights-reader-failed"
            raise crash.refusal("AOTC-E835", where, LINES_SHOWN, cause) from crash
        # Orbax opens files by name; the digests are of those that were opened here.
        if [*files_below(source)] != every:
            raise changed_meanwhile(where, source.text)
        for file in files:
            file.require_in_place()
        # It stays open when its folder is removed.
        written = WeightsFile(SourceFile(source.text, into), where)
    tensors, start = dict[str, StoredTensor](), 0
    for array in arrays:
        dtype = jnp.dtype(array.dtype.value)
        tensor = StoredTensor(written, array.name, start, dtype, array.shape, dtype)
        tensors[array.name] = tensor
        start += tensor.nbytes
    if start != written.size or len(tensors) < len(arrays):
        found = f"{source.text}: {written.size} bytes for arrays of {start}"
        raise refusal("AOTC-E830", where, found, cause=INVALID)
    return files, tensors


def _allow_open_files(number: int) -> None:
    """Raise this process's limit of open files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
