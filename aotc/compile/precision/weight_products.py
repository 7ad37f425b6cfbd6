"""Finds the weights of a module that only products use, and the axes that these contract."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from aotc.compile.mlir.jax_functions import element_of, inline

type Axes = tuple[int, ...]
"""For each axis of a value, the axis of the weight that it is."""

type DimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""Contracted axes of both operands, and those that count products, as jax has them."""

CONVOLUTIONS = ("stablehlo.convolution", "stablehlo.dynamic_conv")

MOVES = tuple(
    f"stablehlo.{name}"
    for name in (
        *("transpose", "convert", "broadcast_in_dim", "dynamic_slice", "reshape", "reverse"),
        "slice",
    )
)
"""Operations whose results have numbers of their first operand alone."""


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


@dataclass(frozen=True)
class MatrixProduct:
    """A matrix product of float32 numbers with a weight.

    Attributes:
        operation: The `dot_general`.
        place: The number of the operand that is the weight.
        parameter: The number of the weight among the parameters of the main function.
        axes: For each axis of the operand, the axis of the weight that it is.
    """

    operation: Any
    place: int
    parameter: int
    axes: Axes

    @property
    def activation(self) -> ir.Value:
        """Return the other factor."""
        return self.operation.operands[1 - self.place]

    @property
    def dimension_numbers(self) -> DimensionNumbers:
        """Return the axes that it sums over, and those that count products."""
        found = stablehlo.DotDimensionNumbers(self.operation.attributes["dot_dimension_numbers"])
        return (
            (tuple(found.lhs_contracting_dimensions), tuple(found.rhs_contracting_dimensions)),
            (tuple(found.lhs_batching_dimensions), tuple(found.rhs_batching_dimensions)),
        )


def matrix_products(module: ir.Module, parameters: Collection[int]) -> list[MatrixProduct]:
    """Return the products of these parameters with other factors, of float32, outside of loops.

    Calls of the main function are inlined first.
    """
    with module.context, ir.Location.unknown():
        block = inline(module).regions[0].blocks[0]
        found = [
            product
            for number in sorted(parameters)
            for product in _products(block.arguments[number], number)
        ]
        weights = [each.operation for each in found]
        return [each for each in found if weights.count(each.operation) == 1]


def _products(value: Any, parameter: int) -> Iterator[MatrixProduct]:
    for operation, place, axes in spread(value, MOVES[:1], loops=False)[1]:
        both = (*operation.operands, *operation.results)
        if operation.name == "stablehlo.dot_general" and {*map(element_of, both)} == {"f32"}:
            yield MatrixProduct(operation, place, parameter, axes)


def spread(
    weight: Any, moves: Collection[str], *, loops: bool = True
) -> tuple[list[tuple[Any, Axes]], list[tuple[Any, int, Axes]]]:
    """Return the values that a weight becomes by `moves` and in loops, and all other uses of them.

    Each value comes with the axis of the weight that each of its own axes is, if `moves` are but
    transposes and conversions. A use is an operation, and the number of its operand.
    """
    is_array = isinstance(weight.type, ir.RankedTensorType)
    values = [(weight, tuple(range(weight.type.rank)))] if is_array else []
    uses: list[tuple[Any, int, Axes]] = []
    for value, axes in values:
        for use in value.uses:
            operation, place = use.owner.operation, use.operand_number
            is_move = operation.name in moves and place == 0
            if is_move and element_of(operation.results[0]).startswith(("f", "bf")):
                order = [*range(operation.results[0].type.rank)]
                if operation.name in MOVES[:2]:
                    order = [axes[i] for i in operation.attributes.get("permutation", order)]
                values.append((operation.results[0], tuple(order)))
            elif loops and operation.name == "stablehlo.while" and _is_invariant(operation, place):
                inner = [region.blocks[0].arguments[place] for region in operation.regions]
                values += [(each, axes) for each in (*inner, operation.results[place])]
            elif operation.name != "stablehlo.return" or not _is_carried(operation, place):
                uses.append((operation, place, axes))
    return values, uses


def uses_of(module: ir.Module) -> list[frozenset[Use]]:
    """Return the uses of each parameter of a module's main function.

    Calls of the main function are inlined first.
    """
    with module.context, ir.Location.unknown():
        arguments = inline(module).regions[0].blocks[0].arguments
    return [frozenset(_uses(each)) for each in arguments]


def _uses(weight: Any) -> Iterator[Use]:
    for operation, place, axes in spread(weight, MOVES[:2])[1]:
        if operation.name == "stablehlo.dot_general":
            numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
            summed = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
            yield Product(_sorted_axes(axes, summed[place]))
        elif operation.name in CONVOLUTIONS and place == 1:
            *inner, _ = kernel_axes(operation)
            yield Product(_sorted_axes(axes, inner), is_convolution=True)
        else:
            yield other_use(operation)


def other_use(operation: Any) -> OtherUse:
    """Return the use by an operation that is no product."""
    return OtherUse("a result" if operation.name == "func.return" else operation.name)


def _sorted_axes(axes: Axes, contracted: Any) -> Axes:
    return tuple(sorted(axes[i] for i in contracted))


def kernel_axes(convolution: Any) -> Iterator[int]:
    """Yield the axes of a convolution's kernel: those of space, and its inputs and outputs."""
    numbers = stablehlo.ConvDimensionNumbers(convolution.attributes["dimension_numbers"])
    yield from numbers.kernel_spatial_dimensions
    yield numbers.kernel_input_feature_dimension
    yield numbers.kernel_output_feature_dimension


def _is_invariant(loop: Any, place: int) -> bool:
    """Return whether a value of a loop is the same in every iteration."""
    block = loop.regions[1].blocks[0]
    *_, last = block.operations
    return bool(last.operands[place] == block.arguments[place])


def _is_carried(operation: Any, place: int) -> bool:
    """Return whether the body of a loop returns what it has been given at this place."""
    arguments = operation.parent.operation.regions[-1].blocks[0].arguments
    return place < len(arguments) and bool(arguments[place] == operation.operands[place])
