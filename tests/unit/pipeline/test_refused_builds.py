"""Refusals and crashes of the program itself, through the build's one entry."""

from pathlib import Path

import pytest

from aotc.pipeline.build import build
from aotc_runtime.base.errors import AotcError
from tests.small_manifests import one_function

MANIFEST = one_function("program", "[4]")


@pytest.mark.parametrize(
    ("body", "code", "exit_code", "found"),
    [
        ("import jax; jax.debug.print('{}', x); return x", "AOTC-E822", 3, "debug_print"),
        ("import os; os._exit(0)", "AOTC-E835", 3, "exit status 0"),
        ("import os; os.abort()", "AOTC-E835", 3, "SIGABRT"),
        ("import sys; sys.exit(0)", "AOTC-E829", 3, "SystemExit"),
        ("raise KeyboardInterrupt", "AOTC-E835", 3, "KeyboardInterrupt"),
        ("return x.astype('int2')", "AOTC-E832", 3, "int2"),
        (
            "import jax; return jax.ffi.ffi_call('mine', jax.ShapeDtypeStruct((4,), 'float32'))(x)",
            "AOTC-E904",
            4,
            "mine at program.py:2 (f)",
        ),
    ],
)
def test_build_refusals(tmp_path: Path, body: str, code: str, exit_code: int, found: str) -> None:
    (tmp_path / "program.py").write_text(f"def f(x):\n    {body}\n")
    (tmp_path / "program.toml").write_text(MANIFEST)
    output = tmp_path / "out"
    output.mkdir()
    with pytest.raises(AotcError) as caught:
        build(tmp_path / "program.toml", output=output / "program.aotb")
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)
    assert found in caught.value.findings[0].found
    assert list(output.iterdir()) == []
