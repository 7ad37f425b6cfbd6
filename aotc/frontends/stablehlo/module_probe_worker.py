"""Reads modules and writes them anew, in a confined process.

Run as `python -m aotc.frontends.stablehlo.module_probe_worker FOLDER`.
"""

import resource
from pathlib import Path
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.base.errors import refusal
from aotc.base.workers import confined_process
from aotc.base.workers.worker_child import Progress, answer
from aotc.capture.model_files.custom_call_checks import require_known_calls
from aotc.compile.mlir.mlir_context import new_context, operations_named
from aotc.frontends.stablehlo.module_checks import parse, refused_as_damaged, require_alone
from aotc.frontends.stablehlo.module_probe import MIB, Job


def write_anew(job: Job, progress: Progress) -> None:
    """Raise CaptureError (AOTC-E843) for what is no module."""
    if job.kind == "jax.export":
        import jax.export  # noqa: F401  (before the limits, which count from here on)
    _limit(job)
    for number in range(job.count):
        path = Path(job.folder, str(number))
        progress.started(f"reading {job.text}")
        with new_context():
            with refused_as_damaged(job.text, job.expected):
                module = _module(job, path.read_bytes())
            require_alone(module, job.text)
            require_known_calls(module, job.text, static=False)
            if job.kind == "tensorflow":
                _keep_products_of_masks(module)
            with path.with_suffix(".read").open("wb") as stream:
                module.operation.write_bytecode(stream)


def _module(job: Job, data: bytes) -> Any:
    if job.kind != "jax.export":
        return parse(data, job.text, job.expected)
    import jax.export

    try:
        exported = jax.export.deserialize(bytearray(data))
    except NotImplementedError as error:
        # What jax has no class for; its own effects are refused by the frontend.
        if "effect" not in str(error):
            raise
        raise refusal("AOTC-E844", job.text, str(error)[:300]) from error
    module = exported.mlir_module(serialized=False)
    module.operation.verify()
    return module


def _keep_products_of_masks(module: Any) -> None:
    """Convert booleans to floats by way of integers.

    XLA selects for a product with booleans: false times NaN is 0, which is NaN in TensorFlow.
    """
    with module.context:
        integer = ir.IntegerType.get_unsigned(8)
        for operation in operations_named(module, ("stablehlo.convert",)):
            given = ir.RankedTensorType(operation.operands[0].type)
            made = ir.RankedTensorType(operation.results[0].type).element_type
            if str(given.element_type) != "i1" or isinstance(made, ir.IntegerType):
                continue
            with ir.InsertionPoint(operation), operation.location:
                kind = ir.RankedTensorType.get(given.shape, integer)
                operation.operands[0] = stablehlo.convert(kind, operation.operands[0])


def _limit(job: Job) -> None:
    """Limit the memory from here on; what is used so far belongs to libraries."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime) + job.seconds
    confined_process.at_most(resource.RLIMIT_CPU, seconds, grace=1)
    confined_process.at_most(resource.RLIMIT_CORE, 0)
    confined_process.at_most(
        resource.RLIMIT_DATA, confined_process.data_bytes() + job.memory_mib * MIB
    )
    confined_process.keep_secret(*job.secrets)
    confined_process.shut_off(job.folder)


if __name__ == "__main__":
    answer(Job, write_anew)
