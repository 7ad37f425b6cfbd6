"""MLIR contexts for modules that jax wrote, created without importing jax.

Importing jax takes three times as long as the rest of reading a module. All these private names of
jaxlib are here; seen in 0.11.2, 0.12.0, 0.12.0.1. The public modules of the dialects take 40 ms
more to import; that of sdy is imported by its library in any case, and lacks names for the rest of
the process unless it is imported first.
"""

from collections.abc import Collection, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdyMpmd, _stablehlo
from jaxlib.mlir.dialects import sdy

DTYPES: Mapping[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
"""numpy's dtype of each element type."""


def new_context() -> ir.Context:
    """Return a context with the dialects that those of jax have."""
    upstream = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(upstream)
    context = ir.Context()
    context.append_dialect_registry(upstream)
    context.load_all_available_dialects()
    for dialect in (_stablehlo, _chlo, sdy, _sdyMpmd):
        dialect.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    return context


def read_artifact(artifact: bytes) -> ir.Module:
    """Return a portable artifact's module in its own context; raises ValueError or ir.MLIRError."""
    return _stablehlo.deserialize_portable_artifact(new_context(), artifact)


def operations_named(module: Any, names: Collection[str]) -> list[Any]:
    """Return the operations with these names in a module or function, nested ones included."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in names:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def stablehlo_version() -> str:
    """Return the version of StableHLO that portable artifacts are written in, as jaxlib has it."""
    return str(_stablehlo.get_current_version())


def state_type(function: Any) -> None:
    """Let a function state the types that its parameters and results have become."""
    block = function.regions[0].blocks[0]
    types = [[v.type for v in ends] for ends in (block.arguments, block.operations[-1].operands)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def embed(module: Any, values: Mapping[int, np.ndarray[Any, Any]]) -> None:
    """Replace parameters of `main` by constants, so that compilers can fold and lay them out.

    The other parameters keep their order. `values` maps indexes to arrays of the parameters'
    shapes and types.
    """
    with module.context, ir.Location.unknown():
        main = ir.SymbolTable(module.operation)["main"]
        block = main.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            for index, value in values.items():
                parameter = block.arguments[index]
                element = ir.RankedTensorType(parameter.type).element_type
                array = np.asarray(value, order="C")
                attribute = ir.DenseElementsAttr.get(array, type=element, shape=[*array.shape])
                constant = ir.Operation.create(
                    "stablehlo.constant",
                    results=[parameter.type],
                    attributes={"value": attribute},
                )
                parameter.replace_all_uses_with(constant.result)
        if "arg_attrs" in main.attributes:
            known = enumerate(ir.ArrayAttr(main.attributes["arg_attrs"]))
            kept = [attributes for index, attributes in known if index not in values]
            main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
        for index in sorted(values, reverse=True):
            block.erase_argument(index)
        state_type(main)
