"""What is sent to a worker and back: plain bytes, so that any executor can carry them.

A request names modules and constants by their digests. Small blobs are sent with it; of the others,
a worker answers which it lacks. An answer begins with the SHA-256 of the request's digest and its
own, so that an answer to another request is recognised.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import unpacked
from aotc.base.stages import CompileJob, Executable, Module
from aotc_runtime.base.digest import sha256, sha256_bytes
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Mesh, Target

DIGEST_BYTES = 32

type Blobs = Mapping[str, bytes]
"""Bytes by digest, "sha256:…"."""


class Request(Struct, frozen=True):
    """What a worker of any version can read: the toolchain it must have, and the job if it does.

    build: id of the build that asks, by which it can be stopped.  toolchain: as
    `cached_backend.toolchain_parts` gives it.  job: an encoded `Job`, which only workers with
    exactly this toolchain decode.
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
    """A compile job with digests in place of its module and constants."""

    label: str
    target: Target
    module: str
    stablehlo_version: str
    custom_call_targets: tuple[str, ...]
    options: dict[str, str]
    constants: dict[int, Array]
    mesh: Mesh | None
    calls: dict[str, str]
    weights: tuple[int, ...]

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of its module and constants."""
        return (self.module, *(array.digest for array in self.constants.values()))


class Answer(Struct, frozen=True):
    """One of five answers: an executable; findings, if it does not compile; digests of missing
    blobs; differences between the toolchains; or that the build was stopped.
    """

    executable: Executable | None = None
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    stopped: bool = False


def job_of(job: CompileJob) -> tuple[Job, Blobs]:
    """A job as it is sent, and its blobs."""
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
            mesh=job.mesh,
            calls=dict(job.calls),
            weights=job.weights,
        ),
        blobs,
    )


def compile_job(job: Job, blobs: Blobs) -> CompileJob:
    """The job as the client had it. blobs: all of the job's, with their digests checked."""
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
        mesh=job.mesh,
        calls=job.calls,
        weights=job.weights,
    )


def encode_answer(request: bytes, answer: Answer) -> bytes:
    """An answer to exactly this request."""
    body = msgspec.msgpack.encode(answer)
    return _digest(request, body) + body


def decode_answer(request: bytes, data: object) -> Answer | None:
    """None if it was damaged, or answers something else; what an executor's workers give may as
    well be no bytes at all.
    """
    if not isinstance(data, bytes):
        return None
    body = data[DIGEST_BYTES:]
    if data[:DIGEST_BYTES] != _digest(request, body):
        return None
    try:
        return unpacked(body, Answer)
    except (ValueError, RecursionError):  # MsgspecError is a ValueError, UnicodeDecodeError, too
        return None


def _digest(request: bytes, body: bytes) -> bytes:
    return sha256_bytes(sha256_bytes(request) + sha256_bytes(body))
