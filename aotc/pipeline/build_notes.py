"""Notes on what a build does not prove."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from msgspec import UNSET

from aotc.base.stages import CapturedProgram
from aotc.pipeline.scratch_folder import Scratch
from aotc_runtime.base.errors import AotcError
from aotc_runtime.formats.safetensors_reader import tensor_views
from aotc_runtime.schema import bundle_manifest
from aotc_runtime.schema.fallback_policies import without_compiling
from aotc_runtime.system.bundle_files import open_bundle
from aotc_runtime.verification.bundle_contents import read_root

_INPUTS, _OUTPUTS = "inputs/", "outputs/"


def attestations_at(path: Path) -> int:
    """Return how many attestations a bundle has; 0 where there is none."""
    try:
        return len(read_root(open_bundle(path)).attestations)
    except (AotcError, OSError):
        return 0


def lost_attestations(path: Path, before: int) -> Iterator[str]:
    """Yield a note if a bundle has fewer attestations than the one that it replaced."""
    if (now := attestations_at(path)) < before:
        yield (
            f"{path} replaces a signed bundle: it had {before} attestations, such as signatures, "
            f"and the new one has {now}; sign it again before you deploy it"
        )


def program_notes(program: CapturedProgram) -> Iterator[str]:
    """Yield every note on a program."""
    yield from not_computed(program)
    yield from decision_notes(program)
    yield from size_notes(program)
    if program.xla_flags:
        yield (
            f"the program sets XLA_FLAGS={program.xla_flags}, which has no effect here: options of "
            "the compiler belong in target files, and axes of devices in the manifest's mesh"
        )


def unproven(program: CapturedProgram, scratch: Scratch) -> Iterator[str]:
    """Yield a sentence for each output of a fixture without a finite value, or with some NaN.

    The latter only where integers are passed, which may be indices beyond their table.
    """
    for key in program.profiles:
        data = memoryview(scratch.fixture(key).read_bytes())
        views = tensor_views(data, f"fixture {key.label}")
        arrays = {name: values for name, (values, _) in views.items() if values.size}
        passed = [n for n in arrays if n.startswith(_INPUTS) and arrays[n].dtype.kind in "iu"]
        for name in filter(lambda name: name.startswith(_OUTPUTS), arrays):
            values, path = arrays[name], name.removeprefix(_OUTPUTS) or "result"
            if not np.isfinite(values).any():
                yield (
                    f"the fixture of {key.label} proves nothing about {path}: plain JAX gives no "
                    "finite value there; choose other fixture inputs (an index beyond its table "
                    "gives NaN), or look for NaN in weights"
                )
            elif passed and (count := np.isnan(values).sum()):
                yield (
                    f"plain JAX gives NaN for {count} of {values.size} values of {path} in the "
                    f"fixture of {key.label}, as an index beyond its table does: check `ranges` of "
                    f"{', '.join(name.removeprefix(_INPUTS) for name in passed)}"
                )


def not_computed(program: CapturedProgram) -> Iterator[str]:
    """Yield a note for each entry point with recorded or uncompared results.

    Recorded results are from elsewhere; uncompared ones lack those of a model's framework.
    """
    for name, entry_point in program.entry_points.items():
        if entry_point.recorded:
            yield (
                f"the results that {name} is compared with were recorded elsewhere: plain JAX did "
                "not run it in this build"
            )
        expected = entry_point.model.expected if entry_point.model else None
        if expected and expected.not_compared:
            yield (
                f"{', '.join(expected.not_compared)}: not compared with what was recorded for "
                f"{name}, which has other sizes; record results of these profiles too"
            )
        if entry_point.model and expected is UNSET:
            yield (
                f"{name} is compared with {entry_point.model.file} as it was read, and the reading "
                "with nothing: record what its framework gives, as `expected` in its fixtures"
            )


def decision_notes(program: CapturedProgram) -> Iterator[str]:
    """Yield a note for each decision of the program that its trace fixed, or may have fixed.

    It caught an error about an unknown value, or decides by the size of a dimension.
    """
    for name, entry_point in program.entry_points.items():
        for caught in entry_point.lines.caught:
            yield (
                f"{name} caught {caught}: while it is traced no value is known, so its `except` "
                "branch is compiled for every input; decide with `jax.lax.cond` or `jnp.where`"
            )
        for dimension, reason in entry_point.specialized.items():
            at = entry_point.lines.decisions.get(dimension)
            yield (
                f"{name} is specialized to {dimension}: {reason}"
                f"{f' ({at})' if at else ''}; each profile was traced separately, and other sizes "
                "cannot be served"
            )


def size_notes(program: CapturedProgram) -> Iterator[str]:
    """Yield a note for each padded or split dimension whose size the program computes with.

    A padded or split call has a profile's size.
    """
    for name, entry_point in program.entry_points.items():
        for dimension, place in entry_point.counted.items():
            yield (
                f"{name} computes with the size of {dimension} at {place}: in a padded or split "
                "call, that is a profile's size. Check that the line may use it; the caller's size "
                "comes with `mask` or `length` of the policy"
            )


_QUANTIZED = ("int4", "uint4", "int8", "uint8")
_NARROW = frozenset({"amx-bf16", "avx512bf16", "bf16"})
"""Features of processors with instructions for bfloat16."""
_WIDENING = {"iree": "in each call", "onnxruntime": "at load", "xla": "in each call"}
_WHOLE = frozenset({
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "MatMulNBits",
    "QGemm", "QLinearConv", "QLinearMatMul",
})  # fmt: skip
"""Operators of ONNX Runtime that take quantized weights as they are."""


def target_notes(manifests: Mapping[str, bundle_manifest.BundleManifest]) -> Iterator[str]:
    """Yield notes on each target.

    They are on `split` dimensions that no two profiles can serve, metrics that do not run here,
    entry points whose quantized weights an engine widens, and processors without bfloat16.
    """
    for target, manifest in manifests.items():
        quantized = {
            (name, tensor.name): tensor.packed or tensor.dtype.value
            for name, each in manifest.weights.items()
            for tensor in each.tensors
            if len(tensor.shape) > 1 and tensor.dtype.value in _QUANTIZED
        }
        for name, entry_point in manifest.entry_points.items():
            for dimension, policy in without_compiling(entry_point).items():
                if isinstance(policy, bundle_manifest.Split) and not policy.proof:
                    yield (
                        f"no call of {name} is split along {dimension} for {target}: no sum of "
                        "two profiles is an accepted size; widen `range`, or add smaller profiles"
                    )
            for each in entry_point.evaluations or ():
                if isinstance(each.result, bundle_manifest.ParityNotRun):
                    yield (
                        f"{name} for {target}: {each.metric} was not evaluated, since this host "
                        f"cannot run it ({each.result.reason})"
                    )
            found = {
                (
                    bundle_manifest.engine_of(profile.platform or manifest.target.platform),
                    quantized[key],
                    rounds,
                )
                for profile in entry_point.profiles
                for argument in profile.arguments
                if isinstance(argument, bundle_manifest.WeightArgument)
                and (key := (argument.set, argument.tensor)) in quantized
                and _WHOLE.isdisjoint(profile.thunks)
                for rounds in [bool(profile.precision and profile.precision.activations)]
            }
            precisions = {p.precision.weights for p in entry_point.profiles if p.precision}
            is_slow = manifest.target.platform == "cpu" and _NARROW.isdisjoint(
                manifest.target.features
            )
            if is_slow and "bfloat16" in precisions:
                yield (
                    f"{name} for {target}: the target has none of {', '.join(sorted(_NARROW))}: in "
                    "bfloat16, products of one row take several times as long as in float32"
                )
            for engine, dtype, rounds in sorted(found):
                if rounds and engine == "openvino":
                    yield (
                        f"{name} for {target}: the engine {engine} multiplies 8-bit integers in "
                        'float32; `engines = ["onnxruntime"]` multiplies them as they are'
                    )
                elif engine in _WIDENING and not rounds:
                    yield (
                        f"{name} for {target}: the engine {engine} widens weights of {dtype} "
                        f'{_WIDENING[engine]}; `engines = ["openvino"]` multiplies them as they are'
                    )
