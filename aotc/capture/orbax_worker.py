"""Reads an Orbax checkpoint with Orbax in a confined process, and writes its arrays into a file.

A damaged or hostile checkpoint can end only this process. All its allocations count toward its
memory limit, including the arrays, which are read all at once.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from aotc.base.errors import refusal
from aotc.base.workers import confined_process
from aotc.base.workers.confined_process import ProcessLimits
from aotc.base.workers.worker_child import Progress, answer
from aotc_runtime.schema.bundle_manifest import DType

INVALID = "orbax-checkpoint-is-invalid"
"""The cause of AOTC-E830 for a damaged or unfinished checkpoint."""


class Job(Struct, frozen=True):
    """A checkpoint to read.

    Attributes:
        metadata: The checkpoint's `_METADATA`.
        text: The same file as the build manifest has it, for messages.
        where: For messages.
        into: The file to write, raw.
        limits: What the process may use.
        secrets: Files that it must not read.
    """

    metadata: str
    text: str
    where: str
    into: str
    limits: ProcessLimits
    secrets: tuple[str, ...]


class Array(Struct, frozen=True):
    """An array, whose bytes follow those of the one before it: little-endian, in C order."""

    name: str
    dtype: DType
    shape: tuple[Annotated[int, Meta(ge=0)], ...]


def work(job: Job, progress: Progress) -> list[Array]:
    """Write the arrays, and return what each is. Raises CaptureError (AOTC-E830)."""
    confined_process.keep_secret(*job.secrets)
    confined_process.begin(job.limits)
    # From here on, so that every thread of the libraries is confined.
    import numpy as np

    from aotc.capture import checkpoint_tensors, jax_trees

    progress.started(f"reading {job.text}")
    tree = _restored(job)
    jax_trees.check_paths(tree, job.where)
    tensors = dict(jax_trees.leaf_paths(tree))
    problems = [
        f"{job.text} {name}: {getattr(leaf, 'dtype', type(leaf).__name__)}, which no weights have"
        for name, leaf in tensors.items()
        if getattr(getattr(leaf, "dtype", None), "name", "") not in {*DType}
    ]
    checkpoint_tensors.require_none(problems, job.where, cause=INVALID)
    with Path(job.into).open("wb") as file:
        for array in tensors.values():
            swapped = array.byteswap() if array.dtype.byteorder == ">" else array
            file.write(np.ascontiguousarray(swapped).reshape(-1).view(np.uint8).data)
    return [Array(name, DType(a.dtype.name), a.shape) for name, a in tensors.items()]


def _restored(job: Job) -> Any:
    """Return the tree of a checkpoint with numpy arrays. Raises CaptureError (AOTC-E830)."""
    try:
        import jax
        import numpy as np
        from orbax import checkpoint
    except ImportError as error:
        found = f"{job.text}, and no orbax-checkpoint here"
        raise refusal(
            "AOTC-E830", job.where, found, cause="orbax-checkpoint-is-not-installed"
        ) from error
    folder = Path(job.metadata).parent
    try:
        _require_whole(json.loads(Path(job.metadata).read_bytes()))
        handler = checkpoint.PyTreeCheckpointHandler()
        wanted = jax.tree.map(
            lambda leaf: checkpoint.RestoreArgs(np.ndarray if hasattr(leaf, "dtype") else None),
            handler.metadata(folder).tree,
        )
        return handler.restore(folder, args=checkpoint.args.PyTreeRestore(restore_args=wanted))
    except Exception as error:
        lines = str(error).replace(f"{folder}/", "").splitlines() or [""]
        found = f"{job.text}: {type(error).__name__}: {lines[0].partition(' [')[0][:300]}"
        raise refusal("AOTC-E830", job.where, found, cause=INVALID) from error


def _require_whole(metadata: Any) -> None:
    """Raise ValueError for a checkpoint that Orbax would read wrongly without an error.

    `metadata` is the checkpoint's. Where data may be left out, missing files would be zeros; the
    name of an array is a path, which may lead out of the checkpoint's folder.
    """
    if not metadata["store_array_data_equal_to_fill_value"]:
        raise ValueError("a checkpoint that leaves out data, which may be incomplete")
    for leaf in metadata["tree_metadata"].values():
        name = ".".join(step["key"] for step in leaf["key_metadata"])
        if not name.isprintable() or {"", ".", ".."} & {*name.split("/")}:
            raise ValueError(f"{name!r}: a name that leads elsewhere")


if __name__ == "__main__":
    answer(Job, work)
