"""From a portable artifact to the MLIR text that IREE compiles.

jaxlib reads the artifact, since IREE may lag behind its version of StableHLO. Bound weights become
globals that are parameters of the module: they stay outside of its bytes, and IREE's runtime uses
the memory that the loader verified and mapped. What is left is a function of a call's inputs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

from jaxlib.mlir import ir

from aotc.compile.mlir.mlir_context import DTYPES
from aotc.engines.onnx_graphs import stablehlo_program
from aotc.engines.onnx_graphs.stablehlo_program import (
    Operation,
    UnsupportedError,
    Value,
    require_none,
    value_of,
)
from aotc_runtime.engines.iree.iree_names import DRIVER, FUNCTION, SCOPE

MAIN = "main"
_ALIASES = ("arg_attrs", "res_attrs")
"""Which inputs a result may take the place of; IREE is told of none."""

SIGNLESS = {f"ui{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
"""IREE's globals and interfaces have no unsigned types; the bits are the same."""

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


def signature_of(module: Any) -> tuple[list[Value], list[Value]]:
    """Return the parameters and the results of a module's `main`."""
    with module.context:
        main = ir.SymbolTable(module.operation)[MAIN]
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        return [*map(value_of, kind.inputs)], [*map(value_of, kind.results)]


def require_supported(module: Any) -> None:
    """Raise UnsupportedError for what IREE compiles to something else than StableHLO means.

    Elements that tests/engines does not compare with plain JAX are refused, too.
    """
    program, refused = stablehlo_program.read(module), dict[str, list[Operation]]()
    for operation in program.walk():
        if why := _refused(operation):
            refused.setdefault(why, []).append(operation)
    require_none(refused, program.flops)
    for value in program.arguments:
        if value.element not in DTYPES:
            raise UnsupportedError(f"a parameter of {value.element}")


def _refused(operation: Operation) -> str:
    """Return what an operation is that IREE computes differently; "" for others."""
    name, made = operation.name, {value.element for value in operation.results}
    if "i1" in made and name in _SUMS_OF_BOOLEANS:
        return f"{name} of booleans"
    if "f64" in made and name in _SINGLE:
        return f"{name} of float64"
    return name if name in _REFUSED or not made <= DTYPES.keys() else ""


def text_of(module: Any, weights: Collection[int], driver: str) -> str:
    """Return the text of a module whose parameters at these places are weights; changes the module.

    `driver` is the one that suits it.
    """
    parameters, results = signature_of(module)
    with module.context:
        main = ir.SymbolTable(module.operation)[MAIN]
        for name in _ALIASES:
            if name in main.attributes:
                del main.attributes[name]
        main.attributes["sym_visibility"] = ir.StringAttr.get("private")
        body = str(module.operation.get_asm(enable_debug_info=False)).rstrip()
    assert body.endswith("}"), "a module ends with its region"
    lines = _globals(parameters, weights), _function(parameters, results, weights, driver)
    return "\n".join([body[:-1].rstrip(), *chain(*lines), "}", ""])


def _globals(parameters: Sequence[Value], weights: Collection[int]) -> Iterator[str]:
    for place in sorted(weights):
        type_ = _type(parameters[place], SIGNLESS)
        named = f'#stream.parameter.named<"{SCOPE}"::"{place}"> : {type_}'
        yield f"  util.global private @w{place} = {named}"


def _function(
    parameters: Sequence[Value], results: Sequence[Value], weights: Collection[int], driver: str
) -> Iterator[str]:
    taken, made = ([_type(value) for value in side] for side in (parameters, results))
    given, types = ([_type(value, SIGNLESS) for value in side] for side in (parameters, results))
    passed = (place for place in range(len(given)) if place not in weights)
    arguments = ", ".join(f"%p{place}_in: {given[place]}" for place in passed)
    returns = ", ".join(types)
    reflection = f'{{iree.reflection = {{"{DRIVER}" = "{driver}"}}}}'
    yield f"  func.func public @{FUNCTION}({arguments}) -> ({returns}) attributes {reflection} {{"
    for place in sorted(weights):
        yield f"    %p{place}_in = util.global.load @w{place} : {given[place]}"
    operands, returned = list[str](), list[str]()
    for place, (outside, inside) in enumerate(zip(given, taken, strict=True)):
        yield from _cast(f"p{place}_in", f"p{place}", outside, inside)
        operands.append(f"%p{place}{'_in' if outside == inside else ''}")
    assigned = ", ".join(f"%r{place}" for place in range(len(made)))
    assigned = f"{assigned} = " if made else ""
    kinds = f"({', '.join(taken)}) -> ({', '.join(made)})"
    yield f"    {assigned}func.call @{MAIN}({', '.join(operands)}) : {kinds}"
    for place, (inside, outside) in enumerate(zip(made, types, strict=True)):
        yield from _cast(f"r{place}", f"r{place}_out", inside, outside)
        returned.append(f"%r{place}{'' if outside == inside else '_out'}")
    yield f"    return {', '.join(returned)}{f' : {returns}' if made else ''}"
    yield "  }"


def _type(value: Value, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a value's type as MLIR writes it, with other names for some of its elements."""
    element = names.get(value.element, value.element)
    return f"tensor<{'x'.join([*map(str, value.shape), element])}>"


def _cast(source: str, name: str, before: str, after: str) -> Sequence[str]:
    if before == after:
        return ()
    return (f"    %{name} = stablehlo.bitcast_convert %{source} : ({before}) -> {after}",)
