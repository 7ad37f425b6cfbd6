"""Contexts of MLIR that know what jax's know, made without it."""

from jax.interpreters import mlir

from aotc.compile.mlir.mlir_context import new_context
from tests.running import printed

OPERATIONS = (
    *("func.func", "arith.addi", "math.sin", "scf.if", "vector.broadcast", "llvm.add"),
    *("stablehlo.add", "vhlo.add_v1", "chlo.erf", "mhlo.topk", "sdy.constant", "mpmd.fragment"),
)


def test_a_context_knows_the_dialects_that_those_of_jax_know() -> None:
    ours, its = new_context(), mlir.make_ir_context()
    for name in OPERATIONS:
        assert ours.is_registered_operation(name) and its.is_registered_operation(name)
    assert type(ours) is not type(its)


IMPORTED_FIRST = """
import sys
import aotc.compile.mlir.mlir_context
assert "jax" not in sys.modules
import jax
from jaxlib.mlir.dialects import sdy
jax.jit(jax.numpy.linalg.solve).lower(jax.numpy.eye(3), jax.numpy.ones(3))
print(sdy.DimMappingAttr.__name__)
"""


def test_jax_lacks_nothing_in_a_process_that_read_a_module_before_it_was_imported() -> None:
    """Of sdy its library alone, imported first, leaves a public module that is half empty."""
    assert printed(IMPORTED_FIRST) == "DimMappingAttr\n"
