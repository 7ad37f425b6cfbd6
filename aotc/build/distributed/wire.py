"""What travels to a worker and back: bytes alone, so that any executor can carry it.

A request names modules and constants by their digests. Small ones travel beside it; of larger ones
a worker says which it does not have. An answer begins with SHA-256 of the request and itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec import Struct

from aotc.stages import CompileJob, Executable, Module
from aotc_runtime.digest import sha256, sha256_bytes
from aotc_runtime.schema.manifest import Target

DIGEST_BYTES = 32

type Blobs = Mapping[str, bytes]
"""By digest, "sha256:…"."""


class Request(Struct, frozen=True):
    """For a worker of whatever version: what it needs to be, and what to do then.

    build: which build asks, so that it can be stopped.  toolchain: as of
    `cached_backend.toolchain_parts`.  job: a `Job`, for workers with exactly this toolchain.
    """

    build: str
    platform: str
    toolchain: dict[str, str]
    job: bytes


class Array(Struct, frozen=True):
    """A constant. dtype: as numpy spells it.  digest: of its bytes, in C order."""

    dtype: str
    shape: tuple[int, ...]
    digest: str


class Job(Struct, frozen=True):
    """A compile job without its bytes."""

    label: str
    target: Target
    module: str
    stablehlo_version: str
    custom_call_targets: tuple[str, ...]
    options: dict[str, str]
    constants: dict[int, Array]

    @property
    def digests(self) -> tuple[str, ...]:
        """Of everything that it is made of."""
        return (self.module, *(array.digest for array in self.constants.values()))


class Answer(Struct, frozen=True):
    """One of five: an executable; why there is none; what is missing; how the worker's toolchain
    differs; or that the build was stopped.
    """

    executable: Executable | None = None
    findings: tuple[dict[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    stopped: bool = False


def job_of(job: CompileJob) -> tuple[Job, Blobs]:
    """A job, and what it is made of."""
    arrays = {index: np.ascontiguousarray(value) for index, value in job.constants.items()}
    raw = {index: array.tobytes() for index, array in arrays.items()}
    constants = {
        index: Array(array.dtype.str, array.shape, sha256(raw[index]))
        for index, array in arrays.items()
    }
    blobs = {sha256(data): data for data in (job.module.artifact, *raw.values())}
    module = job.module
    return (
        Job(
            label=job.label,
            target=job.target,
            module=sha256(module.artifact),
            stablehlo_version=module.stablehlo_version,
            custom_call_targets=module.custom_call_targets,
            options=dict(job.options),
            constants=constants,
        ),
        blobs,
    )


def compile_job(job: Job, blobs: Blobs) -> CompileJob:
    """The job as the client had it. blobs: all of them, by digests that were checked."""
    artifact = blobs[job.module]
    return CompileJob(
        label=job.label,
        module=Module(artifact, job.module, job.stablehlo_version, job.custom_call_targets),
        target=job.target,
        options=job.options,
        constants={
            index: np.frombuffer(blobs[array.digest], array.dtype).reshape(array.shape)
            for index, array in job.constants.items()
        },
    )


def encode_answer(request: bytes, answer: Answer) -> bytes:
    """An answer to exactly this request."""
    body = msgspec.msgpack.encode(answer)
    return _digest(request, body) + body


def decode_answer(request: bytes, data: bytes) -> Answer | None:
    """None if it was damaged, or answers something else."""
    body = data[DIGEST_BYTES:]
    if data[:DIGEST_BYTES] != _digest(request, body):
        return None
    try:
        return msgspec.msgpack.decode(body, type=Answer)
    except msgspec.MsgspecError:
        return None


def _digest(request: bytes, body: bytes) -> bytes:
    return sha256_bytes(sha256_bytes(request) + sha256_bytes(body))
