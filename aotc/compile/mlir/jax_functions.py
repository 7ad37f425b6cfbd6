"""Functions of jax, put into modules.

Their operations are put in line, not called, so that they work inside the functions of a `reduce`
or `sort` as well, where some compilers take no calls.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir

from aotc.compile.mlir.mlir_context import DTYPES, operations_named


def put(operation: Any, function: Callable[..., Any], *operands: Any) -> list[Any]:
    """Insert what a function of jax computes of these values before an operation.

    Returns the values of its results. 64-bit types are those of the function.
    """
    shapes = [jax.ShapeDtypeStruct(shape_of(value), dtype_of(value)) for value in operands]
    with jax.enable_x64(True):
        text = jax.jit(function, keep_unused=True).lower(*shapes).as_text()
    with operation.context, ir.Location.unknown():
        return _splice(inline(ir.Module.parse(text)), operands, operation)


def inline(module: Any) -> Any:
    """Replace each call by what its function does; return `main`.

    Other functions are left only where composites name them, directly or through each other.
    """
    functions = ir.SymbolTable(module.operation)
    main = functions["main"]
    while calls := operations_named(main, ("func.call",)):
        for call in calls:
            callee = functions[ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
            copy = callee.operation.clone(ip=ir.InsertionPoint(module.body))
            made = _splice(copy, call.operands, call)
            for result, value in zip(call.results, made, strict=True):
                result.replace_all_uses_with(value)
            call.erase()
            copy.erase()
    needed, found = set[str](), [main]
    while found:
        for each in operations_named(found.pop(), ("func.call", "stablehlo.composite")):
            attribute = "callee" if each.name == "func.call" else "decomposition"
            name = ir.FlatSymbolRefAttr(each.attributes[attribute]).value
            if name not in needed:
                needed.add(name)
                found.append(functions[name])
    for function in list(module.body.operations):
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if function.operation.name == "func.func" and name not in {"main", *needed}:
            function.operation.erase()
    return main


def _splice(function: Any, operands: Sequence[Any], operation: Any) -> list[Any]:
    """Move what a function does of these values before an operation; return its results."""
    block = function.regions[0].blocks[0]
    for argument, value in zip(block.arguments, operands, strict=True):
        argument.replace_all_uses_with(value)
    *operations, returned = block.operations
    for each in operations:
        each.operation.move_before(operation)
    return list(returned.operation.operands)


def element_of(value: Any) -> str:
    """Return the type of a value's elements."""
    return str(ir.RankedTensorType(value.type).element_type)


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return numpy's dtype of a value."""
    return DTYPES[element_of(value)]


def shape_of(value: Any) -> list[int]:
    """Return the sizes of a value."""
    return list(ir.RankedTensorType(value.type).shape)
