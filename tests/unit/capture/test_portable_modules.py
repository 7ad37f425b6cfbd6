"""Modules hold what is computed and how it is cut, and nothing of where it was written."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jaxlib.mlir import ir

from aotc.base.errors import CompileError
from aotc.base.stages import Module
from aotc.capture.float64_module import interpret
from aotc.capture.portable_stablehlo import portable
from aotc.compile.mlir import mlir_context
from aotc.compile.xla import jaxlib_private
from tests.modules import parsed

TEXT = """
#path = loc("/home/somebody/secret/model.py":12:3)
#named = loc("predict/layer_1"(#path))
module @jit_{name} attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(
      %arg0: tensor<4xf32> {{jax.arg_info = "params['{name}']", tf.aliasing_output = 0 : i32}} loc("image"),
      %arg1: tensor<4xf32> {{jax.buffer_donor = true}} loc(#path)
    ) -> (tensor<4xf32> {{jax.result_info = "result['{name}']"}}) {{
    %0 = call @{name}_helper(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc(#named)
    %1 = call @_where(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(#named)
    return %1 : tensor<4xf32> loc(#path)
  }} loc(#path)
  func.func private @{name}_helper(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.add %a, %b : tensor<4xf32> loc(#named)
    return %0 : tensor<4xf32>
  }}
  func.func private @_where(%a: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.custom_call @z_target(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.custom_call @a_target(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.custom_call @z_target(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }}
}} loc(#path)
"""  # noqa: E501


@pytest.fixture
def module() -> Module:
    return portable(parsed(TEXT.format(name="predict")))


def text_of(module: Module) -> str:
    read = mlir_context.read_artifact(module.artifact)
    with read.context:
        return str(read.operation.get_asm(enable_debug_info=True))


def test_names_and_places_of_the_program_do_not_change_the_bytes(module: Module) -> None:
    assert portable(parsed(TEXT.format(name="renamed"))) == module


@pytest.mark.parametrize("name", ["secret", "model.py", "predict", "layer_1", "image", "result"])
def test_no_name_of_the_program_is_left(module: Module, name: str) -> None:
    assert name.encode() not in module.artifact
    assert name not in text_of(module)


@pytest.mark.parametrize("names", [("f2", "f1"), ("f1", "f2"), ("f", "f_"), ("f_2", "f_1")])
def test_functions_keep_their_bodies_whatever_their_names(names: tuple[str, str]) -> None:
    def double(x: jax.Array) -> jax.Array:
        return x * 2

    def increase(x: jax.Array) -> jax.Array:
        return x + 1

    double.__name__, increase.__name__ = names
    first, second = jax.jit(double), jax.jit(increase)
    x = np.arange(3, dtype=np.float32)
    lowered = jax.jit(lambda x: first(x) - second(x) * first(x + 1)).lower(x)
    module = portable(lowered.compiler_ir("stablehlo"))
    assert module == portable(mlir_context.read_artifact(module.artifact))
    (found,) = interpret(module.artifact, [x])
    np.testing.assert_array_equal(found, 2 * x - (x + 1) * 2 * (x + 1))


def test_donation_is_kept(module: Module) -> None:
    text = text_of(module)
    assert "tf.aliasing_output = 0" in text
    assert "jax.buffer_donor = true" in text


def test_custom_calls_are_listed_sorted_and_once(module: Module) -> None:
    assert module.custom_call_targets == ("a_target", "z_target")


PRODUCTS = """
module {{
  func.func public @main(%a: tensor<4x4x{dtype}>) -> tensor<4x4x{dtype}> {{
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]{stated}
        : (tensor<4x4x{dtype}>, tensor<4x4x{dtype}>) -> tensor<4x4x{dtype}>
    return %0 : tensor<4x4x{dtype}>
  }}
}}
"""
DEFAULT, HIGH, HIGHEST = (f", precision = [{p}, {p}]" for p in ("DEFAULT", "HIGH", "HIGHEST"))
TF32 = (
    ", precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, "
    "rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, "
    "rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>"
)


@pytest.mark.parametrize(
    ("platform", "dtype", "stated", "expected"),
    [
        ("cuda", "f32", "", HIGHEST),
        ("cuda", "f32", DEFAULT, HIGHEST),
        ("tpu", "f32", DEFAULT, HIGHEST),
        ("cuda", "complex<f32>", DEFAULT, HIGHEST),
        ("cuda", "f32", ", precision = [DEFAULT, HIGH]", ", precision = [HIGHEST, HIGH]"),
        ("cuda", "f32", HIGH, HIGH),
        ("cuda", "f32", TF32, TF32),
        ("cuda", "bf16", DEFAULT, DEFAULT),
        ("cuda", "f64", DEFAULT, DEFAULT),
        ("cpu", "f32", DEFAULT, DEFAULT),
        ("cpu", "f32", "", ""),
    ],
)
def test_float32_products_stay(platform: str, dtype: str, stated: str, expected: str) -> None:
    made = portable(parsed(PRODUCTS.format(dtype=dtype, stated=stated)), platform)
    assert made == portable(parsed(PRODUCTS.format(dtype=dtype, stated=expected)))


def test_convolutions_of_float32_are_asked_for_in_float32_on_accelerators() -> None:
    lowered = jax.jit(lambda x: jax.lax.conv(x, x, (1, 1), "SAME")).lower(
        np.ones((2, 2, 3, 3), "f")
    )
    text = text_of(portable(lowered.compiler_ir(), "cuda"))
    assert "HIGHEST" in text and "DEFAULT" not in text


def test_cumulative_sums_for_gpus_are_written_down() -> None:
    traced = jax.jit(lambda x: jnp.cumsum(x, axis=1)).trace(np.ones((4, 4), np.float32))
    module = portable(traced.lower(lowering_platforms=("cuda",)).compiler_ir(), "cuda")
    assert '"chlo.scan"' in text_of(module)


SHARDED = """
module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2]>
  func.func public @main(
      %arg0: tensor<4x8xf32>,
      %arg1: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
    ) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4x8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"data"}]> : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
"""


@pytest.fixture
def sharded() -> ir.Module:
    return parsed(SHARDED)


def test_a_closed_over_array_is_whole_on_every_device(sharded: ir.Module) -> None:
    read = mlir_context.read_artifact(portable(sharded).artifact)
    with read.context:
        main = ir.SymbolTable(read.operation)["main"]
        attributes = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
        shardings = [ir.StringAttr(each["mhlo.sharding"]).value for each in attributes]
    assert shardings == ["{replicated}", "{devices=[2,1]<=[2]}"]


def test_how_a_program_is_cut_is_no_call_into_a_library(sharded: ir.Module) -> None:
    made = portable(sharded)
    assert "Sharding" in made.custom_call_targets or b"Sharding" in made.artifact
    assert jaxlib_private.custom_call_targets(mlir_context.read_artifact(made.artifact)) == []


@pytest.mark.parametrize(("before", "refused"), [(-2, True), (-1, False), (1, False)])
def test_convolutions_that_jaxlib_0_11_computes_wrongly_are_refused(
    before: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convolved(image: jax.Array, kernel: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(image, kernel, (1, 1), [(0, -3), (before, 2)])

    shapes = jnp.ones((1, 2, 8, 8)), jnp.ones((3, 2, 3, 3))
    module = jax.jit(convolved).lower(*shapes).compiler_ir("stablehlo")
    portable(module)
    monkeypatch.setattr(jaxlib, "__version__", "0.11.2")
    with pytest.raises(CompileError, match="wrong in this jaxlib") if refused else nullcontext():
        portable(module)
