"""Arguments that IREE would write to, and what jax calls by the name of a function."""

from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from aotc.compile.mlir.jax_functions import element_of, put
from aotc.compile.mlir.mlir_context import DTYPES, operations_named
from aotc.engines.iree.repairs.repair_bodies import UnrepairableError

WRITING = ("stablehlo.dynamic_update_slice", "stablehlo.scatter")
"""Operations whose result IREE may write over their operand."""

DONATED = ("tf.aliasing_output", "jax.buffer_donor")
"""Attributes of arguments that their callers give up."""


def composite(operation: Any) -> None:
    """Call what a named function is made of: IREE's own `top_k` takes any of equals."""
    with ir.InsertionPoint(operation):
        types = [result.type for result in operation.results]
        name, given = operation.attributes["decomposition"], [*operation.operands]
        called = func.CallOp(types, ir.FlatSymbolRefAttr(name), given)
    for result, made in zip(operation.results, called.results, strict=True):
        result.replace_all_uses_with(made)
    operation.erase()


def keep_arguments(module: Any, weights: Collection[int]) -> None:
    """Let the module update copies of its arguments, except donated ones.

    IREE writes the changes of a scatter or an update into the argument itself, if nothing else
    reads it. `weights` are places of parameters that IREE holds as globals and does not write to.
    """
    written = {
        element_of(value)
        for operation in operations_named(module, WRITING)
        for value in operation.operands
    }
    main = ir.SymbolTable(module.operation)["main"]
    block = main.regions[0].blocks[0]
    attributes = (
        [*ir.ArrayAttr(main.attributes["arg_attrs"])] if "arg_attrs" in main.attributes else []
    )
    for place, value in enumerate(block.arguments):
        known = ir.DictAttr(attributes[place]) if attributes else ()
        given_up = any(name in known for name in DONATED)
        if place in weights or given_up or element_of(value) not in written:
            continue
        if element_of(value) not in DTYPES:
            raise UnrepairableError(f"a copy of {element_of(value)}, which IREE would write to")
        readers = [(use.owner, use.operand_number) for use in value.uses]
        (copy,) = put(block.operations[0], _with_zeros, value)
        for reader, number in readers:
            reader.operands[number] = copy


def _with_zeros(value: Any) -> Any:
    """Return a copy that IREE does not remove: zeros are added that depend on the numbers' bits.

    They are the first bit shifted away.
    """
    bits, kind = 8 * value.dtype.itemsize, value.dtype
    if kind == np.bool_:
        numbers = value.astype(jnp.int8)
    else:
        whole = kind if kind.kind in "iu" else np.dtype(f"int{bits}")
        numbers = lax.bitcast_convert_type(value, whole)
    zeros = lax.shift_right_logical(numbers, jnp.full_like(numbers, bits - 1))
    made = numbers ^ lax.shift_right_logical(zeros, jnp.full_like(numbers, 1))
    return made != 0 if kind == np.bool_ else lax.bitcast_convert_type(made, kind)
