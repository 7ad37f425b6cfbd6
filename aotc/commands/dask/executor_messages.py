"""Messages to a worker and back: plain bytes, so that any executor can carry them.

An answer begins with the SHA-256 of the request's digest and its own, so that an answer to another
request, or to one that was damaged on its way, is recognised.
"""

import msgspec
import numpy as np
from msgspec import Struct

from aotc.base.msgpack_values import unpack
from aotc.base.stages import CompileJob, Executable, Module
from aotc_runtime.base.digest import sha256_bytes
from aotc_runtime.base.errors import Finding
from aotc_runtime.schema.bundle_manifest import Mesh, Target

DIGEST_BYTES = 32


class Request(Struct, frozen=True):
    """A request that a worker of any version can read: the toolchain it must have, and the job.

    build: id of the build that asks, by which it can be stopped.  toolchain: as
    `cached_backend.toolchain_parts` gives it.  job: from `encode_job`, which only workers with
    exactly this toolchain decode.
    """

    build: str
    platform: str
    toolchain: dict[str, str]
    job: bytes


class Answer(Struct, frozen=True):
    """The result: an executable, findings, differences of toolchains, or that the build stopped."""

    executable: Executable | None = None
    findings: tuple[Finding, ...] = ()
    differences: tuple[str, ...] = ()
    stopped: bool = False


class _Job(Struct, frozen=True):
    """A `CompileJob`. constants: the dtype as numpy spells it, the shape, and data in C order."""

    label: str
    module: Module
    target: Target
    options: dict[str, str]
    constants: dict[int, tuple[str, tuple[int, ...], bytes]]
    mesh: Mesh | None
    calls: dict[str, str]
    weights: tuple[int, ...]
    dimension: str
    artifacts: dict[int, bytes]


def encode_job(job: CompileJob) -> bytes:
    """Return a job as it is sent."""
    return msgspec.msgpack.encode(
        job, enc_hook=lambda array: (array.dtype.str, array.shape, array.tobytes())
    )


def decode_job(data: bytes) -> CompileJob:
    """Return the job as the client had it."""
    sent = unpack(data, _Job)
    constants = {
        index: np.frombuffer(array, dtype).reshape(shape)
        for index, (dtype, shape, array) in sent.constants.items()
    }
    return CompileJob(**{**msgspec.structs.asdict(sent), "constants": constants})


def encode_answer(request: bytes, answer: Answer) -> bytes:
    """Return an answer to exactly this request."""
    body = msgspec.msgpack.encode(answer)
    return _digest(request, body) + body


def decode_answer(request: bytes, data: object) -> Answer | None:
    """Decode a result; None if it is damaged, belongs to another request, or is not bytes."""
    if not isinstance(data, bytes):
        return None
    body = data[DIGEST_BYTES:]
    if data[:DIGEST_BYTES] != _digest(request, body):
        return None
    try:
        return unpack(body, Answer)
    except (ValueError, RecursionError):  # MsgspecError is a ValueError, UnicodeDecodeError, too
        return None


def _digest(request: bytes, body: bytes) -> bytes:
    return sha256_bytes(sha256_bytes(request) + sha256_bytes(body))
