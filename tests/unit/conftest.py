"""A small module in text form, as the portable artifact that a compile job holds."""

from collections.abc import Callable

import pytest
from jaxlib.mlir.dialects import stablehlo

from aotc.base.stages import CompileJob, Module
from aotc.compile.target_files import read_target
from aotc_runtime.base.digest import sha256
from aotc_runtime.schema.bundle_manifest import Target
from tests.modules import parsed

MakeJob = Callable[..., CompileJob]

VARIED = """
module @aotc {
  func.func public @main(%a: tensor<64x64xf32>, %n: tensor<i32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
    %product = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %exp = stablehlo.exponential %product : tensor<64x64xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %sorted = "stablehlo.sort"(%sum) <{dimension = 0 : i64}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %less = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    %count:2 = stablehlo.while(%i = %n, %v = %exp) : tensor<i32>, tensor<64x64xf32>
      cond {
        %limit = stablehlo.constant dense<9> : tensor<i32>
        %more = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %grown = stablehlo.tanh %v : tensor<64x64xf32>
        stablehlo.return %next, %grown : tensor<i32>, tensor<64x64xf32>
      }
    return %count#1, %sorted : tensor<64x64xf32>, tensor<64xf32>
  }
}
"""  # noqa: E501

CALL = """
module @aotc {{
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
    %b = stablehlo.custom_call @{name}(%a) {{api_version = {version} : i32}} : (tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }}
}}
"""  # noqa: E501


def portable(text: str) -> bytes:
    """The portable artifact of a module in text form."""
    module = parsed(text)
    with module.context:
        version = stablehlo.get_current_version()
        return bytes(stablehlo.serialize_portable_artifact(module, version))


@pytest.fixture(scope="session")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return read_target("cpu-x86-64-v3", tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def make_job(v3: Target) -> MakeJob:
    """A compile job for StableHLO text; for the varied module and v3 unless told otherwise."""

    def make(text: str = VARIED, target: Target = v3) -> CompileJob:
        artifact = portable(text)
        return CompileJob("main", Module(artifact, sha256(artifact), "", ()), target)

    return make


@pytest.fixture
def calling() -> Callable[[str, int], str]:
    """A module that makes one custom call."""
    return lambda name, version: CALL.format(name=name, version=version)
