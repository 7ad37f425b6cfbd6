"""Sums of products, and sums in windows."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from aotc.backends.iree.repairs.words import UnrepairableError, kind_of, like, put, replace


def product(operation: Any) -> None:
    """Sum products of float16 and bfloat16 in float32, as XLA does, where IREE rounds every sum;
    and widen unsigned integers, which IREE takes for signed ones when the sums are wider. Booleans
    that are added over nothing are false, which IREE divides by zero to find out.
    """
    kind, element = kind_of(operation.results[0])
    if element == "i1" and any(0 in operand.type.shape for operand in operation.operands):
        replace(operation, f"    %r = stablehlo.constant dense<false> : {kind}")
        return
    given = [kind_of(operand)[1] for operand in operation.operands]
    if element in ("f16", "bf16"):
        _summed(operation, "f32", operation.name == "stablehlo.convolution")
    elif any(each.startswith("ui") and each != element for each in given):
        _summed(operation, element, True)


def _summed(operation: Any, element: str, widened: bool) -> None:
    """widened: whether the factors are made numbers of the sums' kind."""
    (given,) = operation.results
    kind = str(given.type)
    factors = list(operation.operands)
    if widened:
        factors = [_converted(operation, each, like(str(each.type), element)) for each in factors]
    with ir.InsertionPoint(operation):
        wide = ir.Operation.create(
            operation.name,
            results=[ir.Type.parse(like(kind, element))],
            operands=factors,
            attributes={name: operation.attributes[name] for name in operation.attributes},
        )
    given.replace_all_uses_with(_converted(operation, wide.result, kind))
    operation.erase()


def _converted(operation: Any, value: Any, kind: str) -> Any:
    """Behind a barrier, since IREE would put the conversion into the product again."""
    body = f"""
    %made = stablehlo.convert %a0 : ({value.type}) -> {kind}
    %r = stablehlo.optimization_barrier %made : {kind}
"""
    (made,) = put(operation, body, [value], [kind])
    return made


def refuse(operation: Any) -> None:
    """Raises UnrepairableError."""
    raise UnrepairableError(operation.name)
