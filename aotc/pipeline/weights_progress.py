"""How far a build is with weights, in bytes, where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Lock

from aotc.bundle.write.bundle_writer import TargetParts
from aotc.config.build_manifest import BuildManifest
from aotc.config.checkpoint_files import files_of
from aotc.pipeline.scratch_folder import Scratch
from aotc.pipeline.tasks.task_progress import OnStage
from aotc_runtime.formats import oci_layout
from aotc_runtime.system.streamed_bundle import Told, nobody

LARGE_BYTES = 64 * 2**20
"""Less than this is written and hashed before anybody could read how far it is."""

LOOK_SECONDS = 0.5


def waited_for[T](
    captured: Future[T], scratch: Scratch, manifest: BuildManifest, on_stage: OnStage
) -> T:
    """The result of a capture, which meanwhile hashes the sources of weights and writes shards: how
    much of both is done. Raises what the capture raises.
    """
    total = 2 * sum(_size_of_sources(manifest))
    told = 0
    while total >= LARGE_BYTES and not wait([captured], LOOK_SECONDS).done:
        done = min(total, scratch.weights_hashed() + scratch.weights_written())
        if done > told:
            on_stage("weights", done, total)
            told = done
    found = captured.result()
    if told:
        on_stage("weights", total, total)
    return found


def _size_of_sources(manifest: BuildManifest) -> list[int]:
    sizes = [0]
    for spec in manifest.weights.values():
        for source in (spec.source or {}).values():
            with suppress(OSError):
                sizes += [file.path.stat().st_size for file in files_of(source)]
    return sizes


def packing_told(parts: Sequence[TargetParts], on_stage: OnStage) -> Told:
    """A function that makes of bytes how far the packing is: weights are copied, and hashed as they
    were written.
    """
    weights = {
        blob.digest: len(blob.data)
        for part in parts
        for blob in part.blobs
        if blob.media_type == oci_layout.WEIGHTS_TYPE
    }
    total, lock = 2 * sum(weights.values()), Lock()
    if total < LARGE_BYTES:
        return nobody
    done = 0

    def told(number: int) -> None:
        nonlocal done
        with lock:
            done = min(total, done + number)
            on_stage("pack", done, total)

    return told
