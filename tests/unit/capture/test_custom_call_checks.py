"""Custom calls of files are judged before they run: by name, and by what their kernels take."""

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as scipy_linalg
import numpy as np
import pytest
from jax import export
from jax._src.lax import linalg
from jaxlib import lapack
from jaxlib.mlir import ir

from aotc.base.errors import CaptureError
from aotc.capture.model_files import custom_call_checks
from aotc.capture.model_files.custom_call_checks import require_known_calls
from aotc.compile.mlir.mlir_context import new_context
from aotc.frontends.stablehlo.jax_export_frontend import JaxExportFrontend
from aotc.frontends.stablehlo.stablehlo_frontend import StablehloFrontend
from tests.refusals import error_of
from tests.unit.frontends.test_stablehlo_modules import file


def _applied(x: Any, left: bool) -> Any:
    a, taus = linalg.geqrf(x[:, :3])
    return linalg.ormqr(a, taus, x[:, :4] if left else x[:4], left=left, transpose=True)


def _product(x: Any) -> Any:
    a, taus = linalg.geqrf(x)
    return linalg.householder_product(a, taus[..., :2])


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "lu": scipy_linalg.lu,
    "solve": lambda x: jnp.linalg.solve(x, x[:, :2]),
    "triangular": lambda x: scipy_linalg.solve_triangular(x, x[:, :2], lower=True),
    "triangular right": lambda x: linalg.triangular_solve(x, x[:2]),
    "qr": lambda x: tuple(jnp.linalg.qr(x[:, :3])),
    "complete qr": lambda x: tuple(jnp.linalg.qr(x[:, :3], mode="complete")),
    "pivoted qr": lambda x: scipy_linalg.qr(x[:, :3], pivoting=True),
    "reflectors": _product,
    "applied": lambda x: _applied(x, left=True),
    "applied right": lambda x: _applied(x, left=False),
    "svd": lambda x: tuple(jnp.linalg.svd(x[:3])),
    "thin svd": lambda x: tuple(jnp.linalg.svd(x[:3], full_matrices=False)),
    "singular values": lambda x: jnp.linalg.svd(x[:3], compute_uv=False),
    "svd by qr": lambda x: linalg.svd(x[:3], algorithm=linalg.SvdAlgorithm.QR),
    "eigh": lambda x: tuple(jnp.linalg.eigh(x)),
    "eig": lambda x: tuple(jnp.linalg.eig(x)),
    "schur": lambda x: linalg.schur(x),
    "hessenberg": lambda x: scipy_linalg.hessenberg(x, calc_q=True),
    "tridiagonal": linalg.tridiagonal,
    "banded": lambda x: linalg.tridiagonal_solve(x[0], x[1], x[2], x[:, :2]),
    "top_k": lambda x: jax.lax.top_k(x.real, 3),
    "approximate top k": lambda x: jax.lax.approx_max_k(x.real, 2),
    "special": lambda x: jax.scipy.special.erf(x.real),
}
KINDS = ("float32", "float64", "complex64", "complex128")


@pytest.fixture
def wide() -> Any:
    with jax.enable_x64(True):
        yield


@cache
def module_of(name: str, kind: str, batched: bool) -> str:
    """The StableHLO of a program of jax."""
    function = jax.vmap(PROGRAMS[name]) if batched else PROGRAMS[name]
    shape = jax.ShapeDtypeStruct((2, 5, 5) if batched else (5, 5), kind)
    return str(jax.jit(function).lower(shape).compiler_ir("stablehlo"))


def judge(text: str, *, static: bool = True) -> None:
    with new_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        require_known_calls(module, "it", static=static)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_jax_calls_is_what_its_kernels_take(name: str) -> None:
    for kind, batched in product(KINDS, (False, True)):
        judge(module_of(name, kind, batched))


@pytest.mark.usefixtures("wide")
def test_every_kernel_that_jaxlib_registers_and_the_runtime_serves_is_called_above() -> None:
    called = {
        target
        for name, kind in product(PROGRAMS, KINDS)
        for target in re.findall(r"@(lapack_\w+)\(", module_of(name, kind, False))
    }
    lapack._lapack.initialize()
    registered = {name for name, *_ in lapack.registrations()["cpu"]}
    assert called == {name for name in registered if name.startswith("lapack_")}
    assert {*custom_call_checks._KERNELS} == called


CALL = re.compile(r"stablehlo\.custom_call @(?P<name>lapack_\w+|TopK)\(.*")
TENSOR = re.compile(r"tensor<((?:\d+x)*)((?:f|i)\d+|complex<f\d+>)>")


def wrong(line: str) -> list[str]:
    """A call, once for each operand and result with another size, rank or type, and for each
    setting with another value or none.
    """
    head, _, types = line.rpartition(" : ")
    found = []
    for match in TENSOR.finditer(types):
        sizes, element = match[1], match[2]
        others = [f"tensor<{sizes}7x{element}>", f"tensor<{sizes}i8>"]
        if sizes:
            last = sizes[:-1].split("x")
            fewer = max(int(last[-1]) - 1, 0)
            others.append(f"tensor<{'x'.join([*last[:-1], str(fewer)])}x{element}>")
        found += [
            f"{head} : {types[: match.start()]}{other}{types[match.end() :]}" for other in others
        ]
    # Layouts and shardings say nothing of sizes, and would have to be changed along.
    plain = [re.sub(r"(operand|result)_layouts = \[[^\]]*\](, )?", "", each) for each in found]
    for setting in re.finditer(r"(\w+) = (\d+ : \w+|true|false)(, )?", head):
        if setting[1] == "api_version":
            continue
        changed = setting[0].replace(setting[2], re.sub(r"\d+ ", "100 ", setting[2], count=1))
        for other in ("", changed if changed != setting[0] else ""):
            plain.append(f"{head[: setting.start()]}{other}{head[setting.end() :]} : {types}")
    return plain


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernel_call_with_other_sizes_types_or_settings_is_refused(name: str) -> None:
    for kind, batched in product(("float32", "complex64"), (False, True)):
        for line in module_of(name, kind, batched).splitlines():
            match = CALL.search(line)
            if match is None:
                continue
            call = re.sub(
                r", sdy\.sharding_rule = #sdy\.op_sharding_rule<.*?, custom>", "", match[0]
            )
            call = re.sub(
                r", output_operand_aliases = \[.*?\]>\]|output_operand_aliases = .*?>\], ", "", call
            )
            call = re.sub(r"(operand|result)_layouts = \[.*?\](?=[,}])(, )?", "", call)
            call = re.sub(r", (?=})", "", call)
            judge(alone(call))
            for other in wrong(call):
                if has_fewer_reflectors(other, call):
                    continue
                assert error_of(CaptureError, judge, alone(other)).code == "AOTC-E844"


def has_fewer_reflectors(other: str, call: str) -> bool:
    """A product of fewer reflectors than columns is one, too."""
    if "gqr_ffi" not in call:
        return False
    one, two = TENSOR.findall(call), TENSOR.findall(other)
    last = [int(sizes[1][0][:-1].split("x")[-1]) for sizes in (one, two) if sizes[1][0]]
    return one[0] == two[0] and one[2] == two[2] and last[1:] == [last[0] - 1]


def alone(call: str) -> str:
    """A module with a call, whose operands are arguments."""
    head, _, types = re.sub(r", (?=})", "", call).rpartition(" : ")
    operands, _, results = types.partition(" -> ")
    given = operands.strip("()").split(", ") if operands != "()" else []
    named = ", ".join(f"%a{number}: {kind}" for number, kind in enumerate(given))
    passed = ", ".join(f"%a{number}" for number in range(len(given)))
    head = re.sub(r"\(%[^)]*\)", f"({passed})", head, count=1)
    count = len(results.strip("()").split(", "))
    bound = f"%0:{count} =" if count > 1 else "%0 ="
    return f"""module {{
  func.func public @main({named}) {{
    {bound} {head} : {types}
    return
  }}
}}"""


OVERWRITES = """
module {
  func.func public @main(%x: tensor<300x300xf32>) -> (tensor<1x1xf32>, tensor<i32>) {
    %0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%x) {api_version = 4 : i32, backend_config = {}}
      : (tensor<300x300xf32>) -> (tensor<1x1xf32>, tensor<1xi32>, tensor<i32>)
    return %0#0, %0#2 : tensor<1x1xf32>, tensor<i32>
  }
}
"""
CALLS = """
module {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = CALL(%x) ATTRIBUTES : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
UNKNOWN = {
    "a callback of Python": (
        "stablehlo.custom_call @xla_ffi_python_cpu_callback",
        "{api_version = 4 : i32, backend_config = {index = 1 : ui64}}",
    ),
    "a callback by address": ("stablehlo.custom_call @xla_python_cpu_callback", ""),
    "a name of its own": ("stablehlo.custom_call @evil", ""),
    "a name that steers": (r'stablehlo.custom_call @"a\1B[31m"', ""),
    "another dialect": ("mhlo.custom_call @lapack_spotrf_ffi", ""),
    "a product of oneDNN": ("stablehlo.custom_call @__onednn$matmul", ""),
    "a kernel without a letter": ("stablehlo.custom_call @lapack_potrf_ffi", ""),
    "a kernel of another letter": ("stablehlo.custom_call @lapack_sungqr_ffi", ""),
    "a kernel that nobody serves": ("stablehlo.custom_call @tridiagonal_solve_perturbed_ffi", ""),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_file_that_calls_what_is_not_known_is_refused_when_it_is_read(what: str) -> None:
    call, attributes = UNKNOWN[what]
    text = CALLS.replace("CALL", call).replace("ATTRIBUTES", attributes)
    caught = error_of(CaptureError, StablehloFrontend().read, file(text.encode(), "it.mlir"))
    assert (caught.code, "\x1b" in str(caught)) == ("AOTC-E844", False)


def test_a_file_whose_kernel_would_write_beyond_its_results_is_refused_when_it_is_read() -> None:
    caught = error_of(CaptureError, StablehloFrontend().read, file(OVERWRITES.encode(), "it.mlir"))
    assert "f32[1,1]" in caught.findings[0].found


HIDDEN = """
module {
  func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.custom_call @evil(%x) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = "stablehlo.case"(%c) ({
      %1 = stablehlo.composite "a.b" %x {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %1 : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_a_call_in_a_branch_or_a_decomposition_is_found() -> None:
    with pytest.raises(CaptureError):
        StablehloFrontend().read(file(HIDDEN.encode(), "it.mlir"))


def exported(function: Callable[[Any], Any], size: str) -> bytes:
    (n,) = export.symbolic_shape(size)
    made = export.export(jax.jit(function))(jax.ShapeDtypeStruct((n, 3, 3), jnp.float32))
    return bytes(made.serialize())


def test_sizes_that_vary_are_judged_once_they_are_numbers(tmp_path: Path) -> None:
    """A file says by another computation what size the result of a call has."""
    data = exported(jnp.linalg.cholesky, "n")
    model = JaxExportFrontend().read(file(data, "it.jax"))
    found = jax.jit(model.function)({}, np.broadcast_to(4 * np.eye(3, dtype=np.float32), (2, 3, 3)))
    np.testing.assert_allclose(found, np.broadcast_to(2 * np.eye(3), (2, 3, 3)))
    text = str(export.deserialize(bytearray(data)).mlir_module())
    judge(text, static=False)
    error_of(CaptureError, judge, text)


def call(name: str, settings: str, types: str) -> str:
    return alone(
        f"stablehlo.custom_call @{name}(%x) {{mhlo.backend_config = {{{settings}}}}} : {types}"
    )


CONSISTENT = {
    "more reflectors than columns": (
        "lapack_sorgqr_ffi", "",
        "(tensor<5x3xf32>, tensor<4xf32>) -> tensor<5x3xf32>",
    ),
    "fewer rows than columns": (
        "lapack_sorgqr_ffi", "",
        "(tensor<3x5xf32>, tensor<3xf32>) -> tensor<3x5xf32>",
    ),
    "more reflectors than rows": (
        "lapack_sormqr_ffi", "left = true, transpose = false",
        "(tensor<3x4xf32>, tensor<4xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>",
    ),
    "reflectors of the other side": (
        "lapack_sormqr_ffi", "left = false, transpose = false",
        "(tensor<3x2xf32>, tensor<2xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
    ),
    "fewer columns than reflectors": (
        "lapack_sormqr_ffi", "left = true, transpose = false",
        "(tensor<3x1xf32>, tensor<2xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
    ),
    "a number as side": (
        "lapack_sormqr_ffi", "left = 1 : i32, transpose = false",
        "(tensor<3x2xf32>, tensor<2xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>",
    ),
    "triangular of the other side": (
        "lapack_strsm_ffi",
        "side = 82 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 78 : ui8",
        "(tensor<5x5xf32>, tensor<5x2xf32>) -> tensor<5x2xf32>",
    ),
    "whole vectors where there is room for few": (
        "lapack_sgesdd_ffi", "mode = 65 : ui8",
        "(tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>, tensor<5x3xf32>, tensor<3x3xf32>, "
        "tensor<i32>)",
    ),
    "vectors that take the place of the matrix": (
        "lapack_sgesdd_ffi", "mode = 79 : ui8",
        "(tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>, tensor<5x3xf32>, tensor<3x3xf32>, "
        "tensor<i32>)",
    ),
    "a function that sorts": (
        "lapack_sgees_ffi", "mode = 86 : ui8, sort = 83 : ui8",
        "(tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>, "
        "tensor<i32>, tensor<i32>)",
    ),
    "rows below the first": (
        "lapack_sgehrd_ffi", "low = 0 : i32, high = 3 : i32",
        "(tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>, tensor<i32>)",
    ),
    "rows beyond the last": (
        "lapack_sgehrd_ffi", "low = 1 : i32, high = 4 : i32",
        "(tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>, tensor<i32>)",
    ),
    "a batch of other sizes": (
        "lapack_sgetrf_ffi", "",
        "(tensor<9x3x3xf32>) -> (tensor<9x3x3xf32>, tensor<1x3xi32>, tensor<9xi32>)",
    ),
    "more elements than there are": (
        "TopK", "", "(tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>)",
    ),
    "places in another type": (
        "TopK", "", "(tensor<4xf32>) -> (tensor<3xf32>, tensor<3xi8>)",
    ),
}  # fmt: skip
"""Calls whose operands and results fit each other, and not what the kernel does with them."""


@pytest.mark.parametrize("what", CONSISTENT)
def test_a_call_that_its_kernel_would_follow_beyond_its_arrays_is_refused(what: str) -> None:
    assert error_of(CaptureError, judge, call(*CONSISTENT[what])).code == "AOTC-E844"


def test_settings_that_are_stated_twice_are_refused() -> None:
    text = call(
        "lapack_spotrf_ffi",
        "uplo = 76 : ui8",
        "(tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)",
    )
    judge(text)
    twice = text.replace(
        "{mhlo.", "{api_version = 4 : i32, backend_config = {uplo = 85 : ui8}, mhlo."
    )
    error_of(CaptureError, judge, twice)


@pytest.mark.parametrize(
    "text",
    [
        "%0 = stablehlo.custom_call @lapack_sgetrf_ffi() : () -> tensor<3x3xf32>",
        "%0 = stablehlo.custom_call @lapack_sgesdd_ffi(%x) "
        "{mhlo.backend_config = {mode = 78 : ui8}}"
        " : (tensor<3x3xf32>) -> tensor<3x3xf32>",
        "stablehlo.custom_call @TopK(%x) : (tensor<3x3xf32>) -> ()",
    ],
    ids=["no operand", "few results", "no result"],
)
def test_a_call_that_lacks_operands_or_results_is_refused(text: str) -> None:
    error_of(CaptureError, judge, f"func.func @main(%x: tensor<3x3xf32>) {{\n{text}\nreturn\n}}")
