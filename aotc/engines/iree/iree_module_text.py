"""From a portable artifact to the MLIR text that IREE compiles.

jaxlib reads the artifact, since IREE may lag behind its version of StableHLO. Bound weights become
globals that are parameters of the module: they stay outside of its bytes, and IREE's runtime uses
the memory that the loader verified and mapped. What is left is a function of a call's inputs.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import stablehlo_program
from aotc.engines.onnx_graphs.stablehlo_program import Operation, UnsupportedError, require_none
from aotc_runtime.engines.iree.iree_names import DRIVER, FUNCTION, SCOPE

MAIN = "main"
_ALIASES = ("arg_attrs", "res_attrs")
"""Which inputs a result may take the place of; IREE is told of none."""

SIGNLESS = {f"ui{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
"""IREE's globals and interfaces have no unsigned types; the bits are the same."""

_SIZES = {element: dtype.itemsize for element, dtype in DTYPES.items()}
"""Bytes of an element, by its type in MLIR's words: of those whose results tests/engines compares
with plain JAX. Others are refused.
"""

_SUMS_OF_BOOLEANS = ("stablehlo.add", "stablehlo.subtract", "stablehlo.multiply")
"""StableHLO's sum of booleans is their `or`; IREE 3.13.0 makes it `xor`."""

_SINGLE = ("stablehlo.exponential_minus_one", "stablehlo.log_plus_one")
"""Operations whose digits near zero IREE loses in float64: it takes one from a rounded power, or
the logarithm of a rounded sum."""

_REFUSED = (
    *("stablehlo.atan2", "stablehlo.cbrt", "stablehlo.select_and_scatter", "stablehlo.sort"),
    "stablehlo.tan",
)
"""Operations with wrong results. Sorts are done in place, and take 20 times as long as XLA's."""


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter or a result of `main`. element: the type of its elements, in MLIR's words."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """The type that `main` knows."""
        return _tensor(self.shape, self.element)

    @property
    def outside(self) -> str:
        """Return the type in globals and in the public function."""
        return _tensor(self.shape, SIGNLESS.get(self.element, self.element))

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * _SIZES.get(self.element, 0)


def _tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of `main`."""

    parameters: tuple[Value, ...]
    results: tuple[Value, ...]


def signature_of(module: Any) -> Signature:
    """Return the argument and result types of a module's `main`."""
    with module.context:
        main = ir.SymbolTable(module.operation)[MAIN]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        return Signature(_values("p", kind.inputs), _values("r", kind.results))


def _values(prefix: str, types: Sequence[Any]) -> tuple[Value, ...]:
    tensors = [ir.RankedTensorType(type_) for type_ in types]
    return tuple(
        Value(f"{prefix}{place}", tuple(tensor.shape), str(tensor.element_type))
        for place, tensor in enumerate(tensors)
    )


def require_supported(module: Any) -> None:
    """Raise UnsupportedError for what IREE compiles to something else than StableHLO means."""
    program, refused = stablehlo_program.read(module), dict[str, list[Operation]]()
    for operation in program.walk():
        if why := _refused(operation):
            refused.setdefault(why, []).append(operation)
    require_none(refused, program.flops)
    for value in program.arguments:
        if value.element not in _SIZES:
            raise UnsupportedError(f"a parameter of {value.element}")


def _refused(operation: Operation) -> str:
    """Return what an operation is that IREE computes differently; "" for others."""
    name, made = operation.name, {value.element for value in operation.results}
    if "i1" in made and name in _SUMS_OF_BOOLEANS:
        return f"{name} of booleans"
    if "f64" in made and name in _SINGLE:
        return f"{name} of float64"
    return name if name in _REFUSED or not made <= _SIZES.keys() else ""


def text_of(module: Any, weights: Collection[int], driver: str) -> str:
    """Return the text of a module whose parameters at these places are weights; changes the module.

    `driver` is the one that suits it.
    """
    signature = signature_of(module)
    with module.context:
        main = ir.SymbolTable(module.operation)[MAIN]
        for name in _ALIASES:
            if name in main.attributes:
                del main.attributes[name]
        main.attributes["sym_visibility"] = ir.StringAttr.get("private")
        body = str(module.operation.get_asm(enable_debug_info=False)).rstrip()
    assert body.endswith("}"), "a module ends with its region"
    lines = [*_globals(signature, weights), *_function(signature, weights, driver)]
    return "\n".join([body[:-1].rstrip(), *lines, "}", ""])


def _globals(signature: Signature, weights: Collection[int]) -> Iterator[str]:
    for place in sorted(weights):
        type_ = signature.parameters[place].outside
        named = f'#stream.parameter.named<"{SCOPE}"::"{place}"> : {type_}'
        yield f"  util.global private @w{place} = {named}"


def _function(signature: Signature, weights: Collection[int], driver: str) -> Iterator[str]:
    parameters, results = signature.parameters, signature.results
    passed = [value for place, value in enumerate(parameters) if place not in weights]
    arguments = ", ".join(f"%{value.name}_in: {value.outside}" for value in passed)
    types = ", ".join(value.outside for value in results)
    reflection = f'{{iree.reflection = {{"{DRIVER}" = "{driver}"}}}}'
    yield f"  func.func public @{FUNCTION}({arguments}) -> ({types}) attributes {reflection} {{"
    for place in sorted(weights):
        value = parameters[place]
        yield f"    %{value.name}_in = util.global.load @w{place} : {value.outside}"
    for value in parameters:
        yield from _cast(f"{value.name}_in", value.name, value.outside, value.type)
    taken = ", ".join(_inside(value, "_in") for value in parameters)
    kinds = ", ".join(value.type for value in parameters)
    inner = ", ".join(value.type for value in results)
    given = ", ".join(f"%{value.name}" for value in results)
    assigned = f"{given} = " if results else ""
    yield f"    {assigned}func.call @{MAIN}({taken}) : ({kinds}) -> ({inner})"
    for value in results:
        yield from _cast(value.name, f"{value.name}_out", value.type, value.outside)
    returned = ", ".join(
        _inside(value, "") if value.type == value.outside else f"%{value.name}_out"
        for value in results
    )
    yield f"    return {returned}{f' : {types}' if results else ''}"
    yield "  }"


def _inside(value: Value, suffix: str) -> str:
    """Return the name of a value with the type that `main` knows."""
    return f"%{value.name}{suffix if value.type == value.outside else ''}"


def _cast(source: str, name: str, before: str, after: str) -> Sequence[str]:
    if before == after:
        return ()
    return (f"    %{name} = stablehlo.bitcast_convert %{source} : ({before}) -> {after}",)
