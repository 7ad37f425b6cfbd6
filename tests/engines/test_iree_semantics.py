"""What IREE's code computes where compilers differ, compared with plain JAX, bit by bit where the
results are integers.

Each function of `semantics_program` is compiled for this host's level of x86-64 and run by the
loader's own device. `DIFFERENT` lists what is otherwise, and docs/engines.md tells users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

from aotc.base.errors import CompileError
from aotc.base.stages import CompileJob
from aotc.capture.portable_stablehlo import portable
from aotc.compile.target_files import read_target
from aotc.engines.iree.iree_compiler import IreeBackend
from aotc.pipeline.build_plan import candidates
from aotc_runtime.base.digest import sha256
from aotc_runtime.engines.engine_device import Aval, Stored
from aotc_runtime.engines.iree import iree_engine
from aotc_runtime.verification.verify_bundle import VerifiedBlob

from . import semantics_program as program

DIFFERENT: dict[str, str] = {}
"""Functions that give other results on IREE, with what differs."""

REFUSED: dict[str, str] = {
    "arc_tangents": "stablehlo.atan2",
    "complex_": "complex<f32>",
    "cube_roots": "stablehlo.cbrt",
    "double_complex": "complex<f64>",
    "factorized": "lapack_spotrf_ffi",
    "random_normal": "log_plus_one of float64",
    "small_floats": "f8E4M3FN",
    "tangents": "stablehlo.tan",
    "transformed": "complex<f32>",
}
"""Functions that IREE's compiler refuses, with what its message says."""


def results_of(name: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a function gives on IREE, and in plain JAX."""
    function, inputs = getattr(program, name), program.INPUTS[name]
    with jax.enable_x64():
        expected = [np.asarray(each) for each in jax.tree.leaves(jax.jit(function)(*inputs))]
        lowered = (
            jax.jit(function, keep_unused=True).trace(*inputs).lower(lowering_platforms=("cpu",))
        )
        module = portable(lowered.compiler_ir("stablehlo"))
    (target,) = candidates(read_target("cpu-x86-64-v3", program.HERE), ["iree"], "here")
    made = IreeBackend().compile(CompileJob(name, module, target))
    device = iree_engine.start("iree", None, None)
    avals = [Aval(array.shape, array.dtype) for array in expected]
    blob = VerifiedBlob(sha256(made.serialized), memoryview(made.serialized))
    (executable,) = device.deserialize([Stored(blob, avals, name)], (0,), ())
    buffers = [device.put(array, Aval(array.shape, array.dtype)) for array in inputs]
    given = device.execute(executable, buffers)
    return [device.to_numpy(b, a) for b, a in zip(given, avals, strict=True)], expected


def same(actual: Any, expected: Any) -> bool:
    """Whether results are equal: integers exactly, floats but for rounding."""
    if expected.dtype.kind in "biu":
        return bool(np.array_equal(actual, expected))
    if expected.dtype.kind == "V" or expected.dtype.itemsize == 2:
        actual, expected = actual.astype(np.float32), expected.astype(np.float32)
        return bool(np.allclose(actual, expected, rtol=1e-2, atol=1e-6, equal_nan=True))
    return bool(np.allclose(actual, expected, rtol=2e-5, atol=1e-6, equal_nan=True))


@pytest.mark.parametrize("name", sorted({*program.INPUTS} - {*REFUSED}))
def test_results_are_those_of_plain_jax_but_for_what_is_documented(name: str) -> None:
    actual, expected = results_of(name)
    wrong = [i for i, pair in enumerate(zip(actual, expected, strict=True)) if not same(*pair)]
    told = [(actual[i], expected[i]) for i in wrong]
    assert bool(wrong) == (name in DIFFERENT), told


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_compiled_is_refused_by_its_operation(name: str) -> None:
    with pytest.raises(CompileError) as caught:
        results_of(name)
    finding = caught.value.findings[0]
    assert finding.code in ("AOTC-E904", "AOTC-E916")
    assert REFUSED[name] in finding.found
