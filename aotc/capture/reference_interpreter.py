"""StableHLO's reference interpreter, which comes with jaxlib and shares no code with any engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir import mlir_context

type Array = np.ndarray[Any, Any]


class NotInterpretedError(Exception):
    """A module, an argument or a result that the interpreter does not take; says why."""


def interpreted(artifact: bytes, arguments: Sequence[Array]) -> list[Array]:
    """Return the results of a portable artifact's main function.

    It takes about a microsecond for each operation on a number. Raises NotInterpretedError.
    """
    try:
        module = mlir_context.read_artifact(artifact)
        with module.context, ir.Location.unknown():
            stablehlo.register_interpreter_dialect(module.context)
            main = ir.SymbolTable(module.operation)["main"]
            types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
            given = [_attribute(a, type_) for a, type_ in zip(arguments, types, strict=True)]
            return [np.array(result) for result in stablehlo.eval_module(module, given)]
    except (ValueError, TypeError, RuntimeError, ir.MLIRError) as error:
        raise NotInterpretedError(str(error)) from error


def _attribute(array: Array, type_: Any) -> Any:
    element = ir.RankedTensorType(type_).element_type
    data = np.ascontiguousarray(array)
    return ir.DenseElementsAttr.get(data, type=element, shape=list(array.shape))
