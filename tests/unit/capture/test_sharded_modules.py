"""Modules over several devices: every parameter says how it is cut."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir

from aotc.capture.portable_stablehlo import portable
from aotc.compile.mlir import mlir_context
from aotc.compile.xla import jaxlib_private
from tests.modules import parsed

TEXT = """
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
def module() -> ir.Module:
    return parsed(TEXT)


def test_a_closed_over_array_is_whole_on_every_device(module: ir.Module) -> None:
    read = mlir_context.read_artifact(portable(module).artifact)
    with read.context:
        main = ir.SymbolTable(read.operation)["main"]
        attributes = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
        shardings = [ir.StringAttr(each["mhlo.sharding"]).value for each in attributes]
    assert shardings == ["{replicated}", "{devices=[2,1]<=[2]}"]


def test_how_a_program_is_cut_is_no_call_into_a_library(module: ir.Module) -> None:
    made = portable(module)
    assert "Sharding" in made.custom_call_targets or b"Sharding" in made.artifact
    assert jaxlib_private.custom_call_targets(mlir_context.read_artifact(made.artifact)) == []
