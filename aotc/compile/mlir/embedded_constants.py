"""Replaces parameters of a module by constants.

XLA can then fold them and choose their layout while it compiles, and a call has fewer arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxlib.mlir import ir


def embed(module: Any, values: Mapping[int, np.ndarray[Any, Any]]) -> None:
    """Replace parameters of `main`, by index, in place. The other parameters keep their order.

    values: of the parameters' shapes; float32, float64, or signed integers.
    """
    main = next(
        operation
        for operation in module.body.operations
        if ir.StringAttr(operation.attributes["sym_name"]).value == "main"
    )
    block = main.regions[0].blocks[0]
    with module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
        for index, value in values.items():
            parameter = block.arguments[index]
            constant = ir.Operation.create(
                "stablehlo.constant",
                results=[parameter.type],
                attributes={"value": ir.DenseElementsAttr.get(np.asarray(value, order="C"))},
            )
            parameter.replace_all_uses_with(constant.results[0])
        for index in sorted(values, reverse=True):
            block.erase_argument(index)
        results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        types = [parameter.type for parameter in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
        if "arg_attrs" in main.attributes:
            kept = [
                attributes
                for index, attributes in enumerate(ir.ArrayAttr(main.attributes["arg_attrs"]))
                if index not in values
            ]
            main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
