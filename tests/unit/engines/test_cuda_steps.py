"""Custom calls of CUDA executables that are served, and what is counted in their HLO."""

from __future__ import annotations

import pytest

from aotc.compile.xla.plugin_jobs import steps
from aotc.engines.cuda.cuda_compiler import is_allowed
from aotc_runtime.schema.served_kernels import cuda_module

HLO = """\
HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  ROOT %add = f32[4]{0} add(%param_0, %param_0)
}

ENTRY %main.3 (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %loop = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %call = (f32[4]{0}, s8[9]{0}) custom-call(%loop), custom_call_target="__cublas$gemm"
  %first = f32[4]{0} get-tuple-element(%call), index=0
  ROOT %again = f32[4]{0} fusion(%first), kind=kLoop, calls=%fused
}
"""


@pytest.mark.parametrize(
    ("target", "module"),
    [
        ("cusolver_potrf_ffi", "_solver"),
        ("cu_lu_pivots_to_permutation", "_linalg"),
        ("cu_tridiagonal_solve_perturbed", "_linalg"),
        ("cu_threefry2x32_ffi", "_prng"),
        ("cusparse_gtsv2_ffi", "_sparse"),
    ],
)
def test_jaxs_kernels_are_served_by_their_module(target: str, module: str) -> None:
    assert is_allowed(target) and cuda_module(target) == module


@pytest.mark.parametrize("target", ["__cublas$lt$matmul", "__cudnn$convForward", "__gpu$TopK"])
def test_what_xla_serves_itself_needs_no_module(target: str) -> None:
    assert is_allowed(target) and cuda_module(target) is None


@pytest.mark.parametrize(
    "target",
    [
        "xla_ffi_python_gpu_callback",
        "xla_python_gpu_callback",
        "lapack_spotrf_ffi",
        "cuhybrid_eig_real",
        "__gpu$xla.gpu.triton",
        "cusolver_potrf_ffi2",
        "my_cublas",
    ],
)
def test_nothing_else_is(target: str) -> None:
    assert not is_allowed(target)


def test_the_steps_of_the_entry_computation_are_counted() -> None:
    assert steps(HLO) == {"custom-call": 1, "kernel": 2}
    assert steps("HloModule empty\n") == {}
