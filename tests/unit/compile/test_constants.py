"""Parameters that become constants: the others keep their order and their attributes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from aotc.base.stages import CompileJob
from aotc.compile.mlir import mlir_context
from aotc.compile.xla import xla_objects
from aotc.compile.xla.xla_compiler import XlaBackend
from tests.unit.conftest import portable

DENSE = """
module @aotc {
  func.func public @main(%w: tensor<2x3xf32>, %x: tensor<3xf32> {tf.aliasing_output = 0 : i32},
                         %b: tensor<f32>) -> tensor<3xf32> {
    %h = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
    %y = stablehlo.dot_general %h, %w, contracting_dims = [0] x [0]
      : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<3xf32>
    %c = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %z = stablehlo.add %y, %c : tensor<3xf32>
    return %z : tensor<3xf32>
  }
}
"""
CONSTANTS = {0: np.arange(6, dtype=np.float32).reshape(2, 3), 2: np.asarray(1.5, dtype=np.float32)}


def test_parameters_become_constants_and_the_rest_keep_their_attributes() -> None:
    module = mlir_context.read_artifact(portable(DENSE))
    mlir_context.embed(module, CONSTANTS)
    assert module.operation.verify()
    text = str(module)
    assert "@main(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32}) ->" in text
    assert "dense<1.500000e+00> : tensor<f32>" in text
    assert "[3.000000e+00, 4.000000e+00, 5.000000e+00]" in text


def test_values_decide_the_executable(make_job: Callable[..., CompileJob]) -> None:
    backend = XlaBackend()
    job = replace(make_job(DENSE), constants=CONSTANTS)
    first, again = backend.compile(job), backend.compile(job)
    other = backend.compile(replace(job, constants=CONSTANTS | {2: np.asarray(2.5, np.float32)}))
    assert first.serialized == again.serialized
    assert first.captured == (0, 2)
    assert other.digest != first.digest
    assert first.memory.argument_bytes == 3 * 4


def test_job_options_come_beside_those_of_target(make_job: Callable[..., CompileJob]) -> None:
    text = """
    module @aotc {
      func.func public @main(%a: tensor<32x32xf32>) -> tensor<32x32xf32> {
        %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
          : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
        return %b : tensor<32x32xf32>
      }
    }
    """
    backend, job = XlaBackend(), make_job(text)
    eigen = replace(job, options={"xla_cpu_experimental_ynn_fusion_type": ""})
    assert "ynn-fusion" in xla_objects.contents(backend.compile(job).serialized).thunks
    assert "ynn-fusion" not in xla_objects.contents(backend.compile(eigen).serialized).thunks


@pytest.mark.parametrize("dtype", ["float64", "int8", "int16", "int32", "int64"])
def test_every_type_that_is_captured_can_be_a_constant(dtype: str) -> None:
    name = {"float64": "f64"}.get(dtype, f"i{dtype[3:]}")
    module = mlir_context.read_artifact(
        portable(f"""
        module @aotc {{
          func.func public @main(%a: tensor<2x{name}>) -> tensor<2x{name}> {{
            return %a : tensor<2x{name}>
          }}
        }}
        """)
    )
    mlir_context.embed(module, {0: np.asarray([1, 2], dtype)})
    assert module.operation.verify()
