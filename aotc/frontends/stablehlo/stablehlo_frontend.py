"""StableHLO modules as models: text, MLIR bytecode and portable artifacts.

A module is called as `jax.export` calls what it has exported. Its constants become weights, so that
they lie in the bundle once and not in every executable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import func, stablehlo

from aotc.base.errors import refusal
from aotc.capture import jax_private
from aotc.capture.model_files.frontend_protocol import Array, Model, ModelFile, ModelInput
from aotc.compile.mlir.mlir_context import operations_named
from aotc.frontends.stablehlo.module_checks import PORTABLE, refused_as_damaged
from aotc.frontends.stablehlo.module_probe import rewritten
from aotc_runtime.base.digest import sha256
from aotc_runtime.base.errors import AotcError

CONSTANT_BYTES_MIN = 33
"""Constants of so many bytes become weights; jax keeps smaller ones in its modules, too."""

MAIN = "main"
EXPECTED = f"a StableHLO module of at most version {stablehlo.get_current_version()}"


class StablehloFrontend:
    """Reads modules with static sizes; one module is one profile."""

    def read(self, file: ModelFile) -> Model:
        """Return a module's function, `main` unless the signature names another.

        Raises CaptureError: AOTC-E843 for what is no module of a known version, E844 for sizes that
        vary and types that are no arrays, E845 without such a function.
        """
        (verified,) = rewritten(file, [file.data], EXPECTED)
        called = called_function(file, verified)
        return model_of(
            called.exported,
            [
                ModelInput(name, np.dtype(each.dtype), each.shape)
                for name, each in zip(called.names, called.inputs, strict=True)
            ],
            called.lifted,
            {"StableHLO": _version(file.data)},
        )


@dataclass(frozen=True, slots=True)
class Called:
    """A module's function in `jax.export`: it takes the inputs `names`, then lifted constants."""

    exported: Any
    inputs: Sequence[jax.ShapeDtypeStruct]
    outputs: Sequence[jax.ShapeDtypeStruct]
    names: Sequence[str]
    lifted: Mapping[str, Array]


def called_function(file: ModelFile, verified: bytes) -> Called:
    """Return a module's function, `main` unless the signature names another.

    `verified` is the module that `rewritten` returns.

    Raises:
        CaptureError: As `StablehloFrontend.read`.
    """
    with mlir.make_ir_context(), refused_as_damaged(file.text, EXPECTED):
        module = ir.Module.parse(verified, context=ir.Context.current)
        main = _entry(module, file)
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs = [_abstract(each, f"argument {n}", file) for n, each in enumerate(kind.inputs)]
        outputs = [_abstract(each, f"result {n}", file) for n, each in enumerate(kind.results)]
        names = _argument_names(main, len(inputs))
        spell_out(module)
        lifted = lift_constants(module)
        serialized = jax_private.serialize_portable(module, stablehlo.get_current_version())

    def shaped(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(each.shape, each.dtype) for each in outputs)

    like = jax.export.export(jax.jit(shaped, keep_unused=True))(*inputs)
    more = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in lifted.values()]
    exported = jax_private.with_module(like, serialized, more)
    return Called(exported, inputs, outputs, names, lifted)


def model_of(
    exported: Any,
    inputs: Sequence[ModelInput],
    weights: Mapping[str, Array],
    producer: Mapping[str, str],
    put_together: Callable[[Sequence[Any]], Any] = tuple,
) -> Model:
    """Return a model that calls an exported function: its inputs, then its weights in their order.

    put_together: its result, from the list of arrays.
    """

    def function(bound: Mapping[str, Any], *arrays: Any) -> Any:
        found = exported.call(*arrays, *(bound[name] for name in weights))
        return put_together(jax.tree.leaves(found))

    return Model(function, tuple(inputs), weights, {}, producer)


def _entry(module: Any, file: ModelFile) -> Any:
    """Return the function under jax's name. Raises CaptureError (AOTC-E845)."""
    functions = {
        ir.StringAttr(each.attributes["sym_name"]).value: each
        for each in module.body.operations
        if each.operation.name == "func.func"
    }
    wanted = file.signature or (MAIN if MAIN in functions else next(iter(functions), MAIN))
    if wanted not in functions or (not file.signature and wanted != MAIN and len(functions) > 1):
        where, found = file.text, ", ".join(sorted(functions)) or "no function"
        raise refusal("AOTC-E845", where, found, expected=f"a function {file.signature or MAIN}")
    if wanted != MAIN:
        if MAIN in functions:
            other = max(functions, key=len) + "_"  # no function of the file has it
            ir.SymbolTable.replace_all_symbol_uses(MAIN, other, module.operation)
            ir.SymbolTable.set_symbol_name(functions[MAIN], other)
        ir.SymbolTable.replace_all_symbol_uses(wanted, MAIN, module.operation)
        ir.SymbolTable.set_symbol_name(functions[wanted], MAIN)
    for name, each in functions.items():
        visible = "public" if name == wanted else "private"
        each.attributes["sym_visibility"] = ir.StringAttr.get(visible)
    # What it does not call is not part of the model.
    passmanager.PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
    return ir.SymbolTable(module.operation)[MAIN]


def _abstract(kind: Any, what: str, file: ModelFile) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of a tensor type. Raises CaptureError (AOTC-E844)."""
    refuse = partial(_refusal, file, what)
    try:
        tensor = ir.RankedTensorType(kind)
    except (ValueError, TypeError):
        raise refuse(str(kind), "an array") from None
    if not tensor.has_static_shape:
        raise refuse(str(kind), "fixed sizes (one module for each), or a jax.export file")
    dtype = _dtype(tensor.element_type)
    if dtype is None:
        raise refuse(str(kind), "an element type of jax")
    return jax.ShapeDtypeStruct(tuple(tensor.shape), dtype)


def _refusal(file: ModelFile, what: str, found: str, expected: str) -> AotcError:
    return refusal("AOTC-E844", f"{file.text} {what}", found, expected=expected)


_DTYPES = {
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{
        f"f8{kind}": f"float8_{kind.lower()}"
        for kind in ("E3M4", "E4M3", "E4M3FN", "E4M3FNUZ", "E4M3B11FNUZ", "E5M2", "E5M2FNUZ")
    },
    "f8E8M0FNU": "float8_e8m0fnu",
}
"""Element types of StableHLO by their spelling, and the dtypes of jax."""


def _dtype(element: Any) -> np.dtype[Any] | None:
    name = _DTYPES.get(str(element))
    return None if name is None else np.dtype(jnp.dtype(name))


def _argument_names(main: Any, count: int) -> list[str]:
    """Return names of arguments from the module's locations, else arg0, arg1 and so on."""
    names = []
    for number, argument in enumerate(main.regions[0].blocks[0].arguments):
        text = str(argument.location)
        name = text.removeprefix('loc("').removesuffix('")')
        named = text == f'loc("{name}")' and name.isidentifier()
        names.append(name if named else f"arg{number}")
    if len({*names}) < count:
        return [f"arg{number}" for number in range(count)]
    return names


SCAN = "chlo.scan"
_SPELL_CHLO = "chlo-legalize-to-stablehlo"


def spell_out(module: Any) -> None:
    """Write what XLA computes otherwise than StableHLO says in operations that it computes well.

    `add` of truth values as `or`: constant folding takes them for numbers of one bit, and 1 + 1 for
    0. `maximum` and `minimum` of complex numbers as comparisons: XLA compares real parts alone.
    `chlo.scan` as a loop: jaxlib does not write it as a portable artifact.
    """
    if any(operations_named(function, (SCAN,)) for function in module.body.operations):
        stablehlo.register_stablehlo_passes()
        spelled = f"builtin.module(func.func({_SPELL_CHLO}))"
        passmanager.PassManager.parse(spelled).run(module.operation)
    for function in module.body.operations:
        for name in ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"):
            for operation in operations_named(function, (name,)):
                element = str(operation.results[0].type.element_type)
                with ir.InsertionPoint(operation), operation.location:
                    if name == "stablehlo.add" and element == "i1":
                        made = stablehlo.OrOp(*operation.operands).result
                    elif name != "stablehlo.add" and element.startswith("complex<"):
                        made = _extreme(operation, "GT" if "max" in name else "LT")
                    else:
                        continue
                operation.results[0].replace_all_uses_with(made)
                operation.erase()


def _extreme(operation: Any, direction: str) -> Any:
    """Return the lesser of two complex numbers by real, then imaginary parts."""
    one, other = operation.operands

    def compared(part: Any, how: str) -> Any:
        parts = [part(each).result for each in (one, other)]
        return stablehlo.compare(*parts, stablehlo.ComparisonDirectionAttr.get(how))

    same = compared(stablehlo.RealOp, "EQ")
    imaginary = compared(stablehlo.ImagOp, direction)
    first = stablehlo.select(same, imaginary, compared(stablehlo.RealOp, direction))
    return stablehlo.select(first, one, other)


def lift_constants(module: Any) -> dict[str, Array]:
    """Make a module's large constants further arguments of `main`; return them in order.

    Their names are derived from the contents.
    """
    table = ir.SymbolTable(module.operation)
    needed: dict[str, dict[str, Array]] = {}

    def lift(name: str) -> dict[str, Array]:
        """Turn the constants of a function and its callees into arguments, and return them."""
        if name not in needed:
            needed[name] = {}
            needed[name] = _lift_constants(table[name], lift)
        return needed[name]

    return lift(MAIN)


def _lift_constants(function: Any, lift: Callable[[str], dict[str, Array]]) -> dict[str, Array]:
    """Make large constants of a function, and new arguments of its callees, its last arguments."""
    block, found = function.regions[0].blocks[0], dict[str, Array]()
    siblings = ir.SymbolTable(function.operation.parent)
    arguments: dict[str, Any] = {}

    def argument(name: str, array: Array, kind: Any) -> Any:
        if name not in found:
            found[name] = array
            arguments[name] = block.add_argument(kind, function.location)
        return arguments[name]

    for operation in operations_named(function, ("func.call",)):
        callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
        if more := lift(callee):
            kinds = ir.FunctionType(
                ir.TypeAttr(siblings[callee].attributes["function_type"]).value
            ).inputs[-len(more) :]
            pairs = zip(more.items(), kinds, strict=True)
            passed = [argument(name, array, kind) for (name, array), kind in pairs]
            results = [each.type for each in operation.results]
            symbol = ir.FlatSymbolRefAttr.get(callee)
            with ir.InsertionPoint(operation), operation.location:
                call = func.CallOp(results, symbol, [*operation.operands, *passed])
            for old, new in zip(operation.results, call.results, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()
    for operation in operations_named(function, ("stablehlo.constant",)):
        array = _array(operation)
        if array is not None and array.nbytes >= CONSTANT_BYTES_MIN:
            told = f"{array.dtype}{array.shape}".encode() + array.tobytes()
            name = f"constant_{sha256(told).removeprefix('sha256:')[:16]}"
            result = operation.results[0]
            result.replace_all_uses_with(argument(name, array, result.type))
            operation.erase()
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    types = [*kind.inputs, *(each.type for each in arguments.values())]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, kind.results))
    if "arg_attrs" in function.attributes and arguments:
        known = [*ir.ArrayAttr(function.attributes["arg_attrs"])]
        nothing = [ir.DictAttr.get({}) for _ in arguments]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*known, *nothing])
    return found


def _array(constant: Any) -> Array | None:
    """Return the value of a constant; None where it repeats one number or cannot be shown.

    MLIR's bindings raise TypeError for complex numbers.
    """
    try:
        dense = ir.DenseElementsAttr(constant.attributes["value"])
        tensor = ir.RankedTensorType(dense.type)
        dtype = _dtype(tensor.element_type)
        if dense.is_splat or dtype is None or dtype.name not in _READABLE:
            return None
        return np.array(np.asarray(dense), dtype).reshape(tuple(tensor.shape))
    except (ValueError, TypeError):
        return None


_READABLE = frozenset(
    {"float32", "float64", "float16"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Dtypes of constants that MLIR's Python bindings show as arrays of numpy."""


def _version(data: bytes) -> str:
    """Return the version in which a portable artifact was written; "" for other modules."""
    start = data.find(PORTABLE, 0, 64)
    end = data.find(b"\0", start)
    return data[start + len(PORTABLE) : end].decode("ascii", "replace") if start >= 0 else ""
