"""`python -m aotc.frontends.probe_worker FOLDER`: reads modules, and writes them anew.

A zygote that has imported jax, and has made no context of MLIR, forks it for each file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.export
from jax.interpreters import mlir

from aotc.frontends.probe import Job, limit
from aotc.frontends.stablehlo import parse, refused_as_damaged
from aotc.workers.child import Progress, answer


def write_anew(job: Job, progress: Progress) -> None:
    """Raises CaptureError (AOTC-E843) for what is no module."""
    limit(job)
    for number in range(job.count):
        path = Path(job.folder, str(number))
        progress.started(f"reading {job.text}")
        with mlir.make_ir_context():
            with refused_as_damaged(job.text, job.expected):
                module = _module(job, path.read_bytes())
            with path.with_suffix(".read").open("wb") as stream:
                module.operation.write_bytecode(stream)


def _module(job: Job, data: bytes) -> Any:
    if job.kind == "module":
        return parse(data, job.text, job.expected)
    module = jax.export.deserialize(bytearray(data)).mlir_module(serialized=False)
    module.operation.verify()
    return module


def prepare() -> None:
    """Import all that reading needs, which the imports above do."""


def main() -> None:
    """Answer the job in the folder that the last argument names."""
    answer(Job, write_anew)


if __name__ == "__main__":
    main()
