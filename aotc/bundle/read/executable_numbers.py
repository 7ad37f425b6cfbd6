"""The numbers of executables that `aotc diff` compares, by the names that `--fail-on` takes."""

from __future__ import annotations

from msgspec import UNSET

from aotc.base.call_memory import call_bytes
from aotc.bundle.read.bundle_review import ReviewedExecutable
from aotc_runtime.schema.bundle_manifest import ParityRan

NUMBERS = {
    "artifact_size": ("bytes", "the blobs of a bundle together"),
    "executable_size": ("bytes", "an executable"),
    "module_size": ("bytes", "a module"),
    "code": ("bytes", "object files of an executable"),
    "temp_memory": ("bytes", "temporaries of a call"),
    "call_memory": ("bytes", "what a call allocates, on each device: inputs, outputs, temporaries"),
    "flops": ("", "floating-point operations, by XLA's cost analysis"),
    "transcendentals": ("", "exponentials, sines and the like, by XLA's cost analysis"),
    "bytes_accessed": ("bytes", "bytes read and written, by XLA's cost analysis"),
    "kernels": ("", "generated kernels"),
    "library_steps": ("", "all other steps"),
    "custom_calls": ("", "custom calls"),
    "fusions": ("", "fused kernels"),
    "ulp": ("", "largest error against plain JAX, in units in the last place"),
}
"""Unit, empty for a count, and meaning by name."""


def numbers_of(executable: ReviewedExecutable) -> dict[str, int]:
    """Everything of `NUMBERS` that is known of an executable."""
    record, evidence = executable.record, executable.evidence
    generated = record.thunks.get("kernel", 0)
    found = {
        "executable_size": record.executable.size,
        "module_size": record.module.size,
        "code": record.memory.code_bytes,
        "temp_memory": record.memory.temp_bytes,
        "call_memory": call_bytes(record, executable.description.inputs, executable.mesh),
        "flops": record.cost.flops,
        "transcendentals": record.cost.transcendentals,
        "bytes_accessed": record.cost.bytes_accessed,
        "kernels": generated,
        "library_steps": sum(record.thunks.values()) - generated,
    }
    if isinstance(record.parity, ParityRan):
        found["ulp"] = record.parity.ulp_max
    if evidence is not None and evidence.compiled is not UNSET:
        optimized = evidence.compiled.optimized
        found["custom_calls"] = sum(optimized.custom_calls.values())
        found["fusions"] = sum(optimized.fusions.values())
    return found
