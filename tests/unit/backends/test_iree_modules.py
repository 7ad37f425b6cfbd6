"""What IREE's compiler is given and what it says, without IREE: tests/engines runs the results."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jaxlib.mlir import ir

from aotc.backends.iree import module_text, repairs
from aotc.backends.iree.compile import complaint
from aotc.backends.iree.packages import COMPILER, compiler_version
from aotc.backends.iree.processors import llvm_features
from aotc.backends.targets import read_target
from aotc.backends.xla import private
from aotc.errors import CompileError
from aotc.lowering.stablehlo import portable


def module_of(function: object, *inputs: object) -> ir.Module:
    """The module of a function, as a worker reads it."""
    lowered = jax.jit(function, keep_unused=True).trace(*inputs).lower(lowering_platforms=("cpu",))
    return private.read_artifact(portable(lowered.compiler_ir("stablehlo")).artifact)


def parsed(text: str) -> ir.Module:
    with module_of(lambda x: x, jnp.ones(1)).context:
        return ir.Module.parse(text)


PUBLIC = """\
  func.func public @run(%p1_in: tensor<2x4xf32>) -> (tensor<2x3xf32>) \
attributes {iree.reflection = {"aotc.driver" = "local-sync"}} {
    %p0_in = util.global.load @w0 : tensor<4x3xf32>
    %p2_in = util.global.load @w2 : tensor<3xf32>
    %r0 = func.call @main(%p0_in, %p1_in, %p2_in) : \
(tensor<4x3xf32>, tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x3xf32>)
    return %r0 : tensor<2x3xf32>
  }
}
"""


def test_weights_are_parameters_by_their_place_and_inputs_are_passed() -> None:
    module = module_of(lambda w, x, b: x @ w + b, jnp.ones((4, 3)), jnp.ones((2, 4)), jnp.ones(3))
    text = module_text.text_of(module, (0, 2), "local-sync")
    assert '@w0 = #stream.parameter.named<"weights"::"0"> : tensor<4x3xf32>' in text
    assert '@w2 = #stream.parameter.named<"weights"::"2"> : tensor<3xf32>' in text
    assert text.count("func.func public") == 1
    assert text[text.index("  func.func public") :] == PUBLIC


def test_unsigned_integers_have_no_sign_outside() -> None:
    module = module_of(lambda w, x: w + x, jnp.ones(3, jnp.uint32), jnp.uint32(1))
    text = module_text.text_of(module, (0,), "local-task")
    assert "@w0 = " in text and ": tensor<3xi32>" in text
    assert "@run(%p1_in: tensor<i32>) -> (tensor<3xi32>)" in text
    assert "stablehlo.bitcast_convert %p0_in : (tensor<3xi32>) -> tensor<3xui32>" in text
    assert "stablehlo.bitcast_convert %r0 : (tensor<3xui32>) -> tensor<3xi32>" in text


def test_a_signature_counts_bytes() -> None:
    found = module_text.signature_of(module_of(lambda x: (x, x > 0), jnp.ones((2, 3))))
    assert [each.size_bytes for each in (*found.parameters, *found.results)] == [24, 24, 6]


def test_types_that_are_computed_otherwise_are_refused_by_name() -> None:
    with pytest.raises(module_text.UnsupportedError, match="f8E5M2"):
        module_text.require_supported(module_of(lambda x: x.astype(jnp.float8_e5m2), jnp.ones(2)))
    sums = """func.func public @main(%a: tensor<2xi1>) -> tensor<2xi1> {
        %r = stablehlo.add %a, %a : tensor<2xi1>
        return %r : tensor<2xi1>
    }"""
    with pytest.raises(module_text.UnsupportedError, match=r"stablehlo\.add of booleans"):
        module_text.require_supported(parsed(sums))


def test_a_sort_decides_ties_by_place() -> None:
    module = module_of(jnp.argsort, jnp.ones(5))
    repairs.repair(module)
    text = str(module)
    assert "stablehlo.iota" in text
    assert text.count("stablehlo.return") == 1 and "stablehlo.or" in text
    assert module.operation.verify()


def test_indices_of_a_gather_are_clamped_to_what_is_there() -> None:
    module = module_of(lambda x, i: x.at[i].get(mode="clip"), jnp.ones((4, 3)), jnp.array([1, 9]))
    repairs.repair(module)
    assert "stablehlo.clamp" in str(module) and module.operation.verify()


@pytest.mark.parametrize("function", [jnp.arctan2, jnp.power])
def test_an_operation_becomes_a_call_of_a_repaired_one(function: object) -> None:
    module = module_of(function, jnp.ones(3), jnp.ones(3))
    repairs.repair(module)
    assert "call @repaired" in str(module) and module.operation.verify()


def test_what_needs_a_call_where_none_can_be_is_refused() -> None:
    text = """func.func public @main(%a: tensor<3xf32>, %z: tensor<f32>) -> tensor<f32> {
        %r = stablehlo.reduce(%a init: %z) across dimensions = [0]
            : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        reducer(%x: tensor<f32>, %y: tensor<f32>) {
            %p = stablehlo.power %x, %y : tensor<f32>
            stablehlo.return %p : tensor<f32>
        }
        return %r : tensor<f32>
    }"""
    with pytest.raises(repairs.UnrepairableError, match=r"power within stablehlo\.reduce"):
        repairs.repair(parsed(text))


SAID = [
    "some warning",
    "source.mlir:3:7: error: failed to legalize operation that was explicitly marked illegal",
    "    %2 = stablehlo.custom_call @lapack_foo(%1) : tensor<3xf32>",
    "         ^",
]


def test_a_complaint_names_the_operation() -> None:
    assert complaint(SAID).endswith("marked illegal (at stablehlo.custom_call)")
    assert complaint(["x: error: 'vector.store' op is restricted"]) == (
        "'vector.store' op is restricted"
    )
    assert complaint(["x: error: " + "y" * 5000, "%2 = z.w(%1)"]) == "y" * 300 + " (at z.w)"
    assert complaint(["nothing of that kind"]) == ""


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("cpu-x86-64-v3", "+avx2", "-avx512f"),
        ("cpu-neoverse-n1", "+dotprod", "-sve"),
        ("cpu-neoverse-v2", "+sve2", "-sm4"),
    ],
)
def test_features_are_given_and_denied_by_name(name: str, has: str, lacks: str) -> None:
    features = llvm_features(read_target(name, Path(__file__).parent)).split(",")
    assert has in features and lacks in features


def test_a_compiler_that_is_not_here_is_told_with_what_installs_it() -> None:
    try:
        assert compiler_version() == version(COMPILER)
    except CompileError as error:
        with pytest.raises(PackageNotFoundError):
            version(COMPILER)
        assert error.code == "AOTC-E907"
        assert ".[iree]" in error.findings[0].hint
