"""Finds the weights of a module that only products use, and the axes that these contract."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

type Axes = tuple[int, ...]
"""For each axis of a value, the axis of the weight that it is."""

CONVOLUTIONS = ("stablehlo.convolution", "stablehlo.dynamic_conv")


@dataclass(frozen=True, slots=True)
class Product:
    """A product with a weight as an operand. `contracted` are axes of the weight, sorted."""

    contracted: Axes
    is_convolution: bool = False


@dataclass(frozen=True, slots=True)
class OtherUse:
    """Another use of a weight. `operation` is its name; "a result" for a result of the program."""

    operation: str


type Use = Product | OtherUse


def uses_of(module: ir.Module) -> list[frozenset[Use]]:
    """Return the uses of each parameter of a module's main function."""
    functions = {
        ir.StringAttr(each.attributes["sym_name"]).value: each
        for each in module.body.operations
        if each.operation.name == "func.func"
    }
    arguments = functions["main"].regions[0].blocks[0].arguments
    return [
        frozenset(_uses(each, tuple(range(len(ir.ShapedType(each.type).shape))), functions))
        if isinstance(each.type, ir.RankedTensorType)
        else frozenset()
        for each in arguments
    ]


def _uses(value: Any, axes: Axes, functions: Mapping[str, Any]) -> Iterator[Use]:
    """Yield the uses of a weight, or of a value that has all its numbers."""
    for use in value.uses:
        operation, place = use.owner.operation, use.operand_number
        match operation.name:
            case "stablehlo.transpose":
                moved = tuple(axes[i] for i in operation.attributes["permutation"])
                yield from _uses(operation.results[0], moved, functions)
            case "stablehlo.convert" if isinstance(
                ir.ShapedType(operation.results[0].type).element_type, ir.FloatType
            ):
                yield from _uses(operation.results[0], axes, functions)
            case "stablehlo.dot_general":
                numbers = stablehlo.DotDimensionNumbers(
                    operation.attributes["dot_dimension_numbers"]
                )
                contracted = (
                    numbers.rhs_contracting_dimensions
                    if place
                    else numbers.lhs_contracting_dimensions
                )
                yield Product(_sorted(axes, contracted))
            case name if name in CONVOLUTIONS and place == 1:
                yield Product(_sorted(axes, _summed(operation)), is_convolution=True)
            case "func.call":
                name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
                block = functions[name].regions[0].blocks[0]
                yield from _uses(block.arguments[place], axes, functions)
            case "stablehlo.while" if _is_invariant(operation, place):
                for region in operation.regions:
                    yield from _uses(region.blocks[0].arguments[place], axes, functions)
                yield from _uses(operation.results[place], axes, functions)
            case "stablehlo.return" if _is_carried(operation, value, place):
                pass
            case "func.return":
                yield OtherUse("a result")
            case name:
                yield OtherUse(name)


def _sorted(axes: Axes, contracted: Any) -> Axes:
    return tuple(sorted(axes[i] for i in contracted))


def _summed(convolution: Any) -> Iterator[int]:
    numbers = stablehlo.ConvDimensionNumbers(convolution.attributes["dimension_numbers"])
    yield from numbers.kernel_spatial_dimensions
    yield numbers.kernel_input_feature_dimension


def _is_invariant(loop: Any, place: int) -> bool:
    """Return whether a value of a loop is the same in every iteration."""
    block = loop.regions[1].blocks[0]
    *_, last = block.operations
    return bool(last.operands[place] == block.arguments[place])


def _is_carried(operation: Any, value: Any, place: int) -> bool:
    """Return whether a body of a loop returns a value that it has been given at this place."""
    loop = operation.parent
    if loop is None or loop.operation.name != "stablehlo.while":
        return False
    arguments = loop.operation.regions[1].blocks[0].arguments
    return place < len(arguments) and bool(arguments[place] == value)
