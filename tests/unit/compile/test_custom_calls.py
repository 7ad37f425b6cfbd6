"""Custom calls that a shipped executable may contain."""

import pytest

from aotc.compile.xla import xla_custom_calls

SERVED = ("TopK", "lapack_spotrf_ffi", "lapack_dgesdd_ffi")
NOT_SERVED = (
    *("", "topk", "TopK2", "lapack_spotrf", "lapack_spotrf_ffi2", "my_lapack_spotrf_ffi"),
    *("lapack_spotrf_ffi\n", "lapack__ffi; rm", "xla_ffi_python_cpu_callback"),
    "cu_threefry2x32_ffi",
)


@pytest.mark.parametrize("target", [*SERVED, *NOT_SERVED])
def test_what_the_runtime_serves_is_allowed_and_nothing_else(target: str) -> None:
    assert xla_custom_calls.is_allowed(target) == (target in SERVED)


def test_targets_are_read_from_hlo_text_sorted_and_once() -> None:
    text = """
      a = f32[4] custom-call(x), custom_call_target="b_target", api_version=API_VERSION_TYPED_FFI
      b = f32[4] custom-call(a), custom_call_target="a.target"
      c = f32[4] custom-call(a), custom_call_target="b_target"
    """
    assert xla_custom_calls.targets(text) == ("a.target", "b_target")


def test_callbacks_are_recognized() -> None:
    assert xla_custom_calls.is_callback("xla_ffi_python_cpu_callback")
    assert xla_custom_calls.is_callback("xla_buffer_python_cpu_callback")
    assert not xla_custom_calls.is_callback("lapack_spotrf_ffi")
