"""Sorts that keep the order of equals, and what jax calls by the name of a function."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from aotc.backends.iree.repairs.words import UnrepairableError, cloned, like


def composite(operation: Any) -> None:
    """Call what a named function is made of: IREE's own `top_k` takes any of equals."""
    with ir.InsertionPoint(operation):
        call = ir.Operation.create(
            "func.call",
            results=[result.type for result in operation.results],
            operands=list(operation.operands),
            attributes={"callee": operation.attributes["decomposition"]},
        )
    for result, made in zip(operation.results, call.results, strict=True):
        result.replace_all_uses_with(made)
    operation.erase()


def sort(operation: Any) -> None:
    """Let the place decide between equals, since IREE keeps no order of them."""
    old = operation.regions[0].blocks[0]
    operands, count = list(operation.operands), len(operation.operands)
    dimension = operation.attributes["dimension"]
    first = ir.RankedTensorType(operands[0].type)
    place = ir.IntegerType.get_signless(32)
    scalar = ir.RankedTensorType.get([], place)
    with ir.InsertionPoint(operation):
        places = ir.Operation.create(
            "stablehlo.iota",
            results=[ir.RankedTensorType.get(first.shape, place)],
            attributes={"iota_dimension": dimension},
        ).result
        sort = ir.Operation.create(
            "stablehlo.sort",
            results=[value.type for value in (*operands, places)],
            operands=[*operands, places],
            attributes={
                name: operation.attributes[name]
                for name in ("dimension", "is_stable")
                if name in operation.attributes
            },
            regions=1,
        )
    types = [each.type for each in old.arguments] + [scalar, scalar]
    block = sort.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    arguments = list(block.arguments)
    swapped = [arguments[i ^ 1] for i in range(2 * count)]
    with ir.InsertionPoint(block):
        (less,) = cloned(old, arguments[: 2 * count])
        (more,) = cloned(old, swapped)
        direction = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        earlier = ir.Operation.create(
            "stablehlo.compare",
            results=[less.type],
            operands=arguments[2 * count :],
            attributes={"comparison_direction": direction},
        ).result
        tied = _create("stablehlo.not", less.type, more)
        tie = _create("stablehlo.and", less.type, tied, earlier)
        ir.Operation.create(
            "stablehlo.return", operands=[_create("stablehlo.or", less.type, less, tie)]
        )
    for result, new in zip(operation.results, sort.results, strict=False):
        result.replace_all_uses_with(new)
    operation.erase()


def _create(name: str, type_: Any, *operands: Any) -> Any:
    return ir.Operation.create(name, results=[type_], operands=operands).result


def require_alone(module: Any) -> None:
    """Raises UnrepairableError for a sort of what is used elsewhere, and for several: IREE sorts in
    place, and other uses of an array, or of the indices that two sorts share, see the sorted one.
    """
    sorts: list[Any] = []
    calls: dict[str, list[Any]] = {}
    places: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.sort":
            sorts.append(operation)
        elif operation.name == "stablehlo.iota":
            places.extend(operation.results)
        elif operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            calls.setdefault(callee, []).append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if len(sorts) > 1:
        raise UnrepairableError("several stablehlo.sort in one program")
    for sort in sorts:
        values, function = list(sort.operands), sort.parent
        kinds = {like(str(value.type), "i32") for value in values}
        if any(str(each.type) in kinds and each not in values for each in places):
            # They become one with the indices that the repair adds.
            raise UnrepairableError("stablehlo.sort beside indices of its shape")
        while True:
            if any(len(list(value.uses)) > 1 for value in values):
                raise UnrepairableError("stablehlo.sort of an array that is used elsewhere")
            while function.name != "func.func":
                function = function.parent
            callers = calls.get(ir.StringAttr(function.attributes["sym_name"]).value, [])
            if len(callers) > 1:
                raise UnrepairableError("several stablehlo.sort in one program")
            if not callers:
                break
            values, function = list(callers[0].operands), callers[0].parent
