"""Compiles a bundled module with symbolic dimensions; imported where a policy allows it. Private
names of jaxlib:

    jaxlib.mlir: _mlir_libs._jax_mlir_ext.register_dialects, dialects.stablehlo, dialects.func
    _jax.mlir.refine_polymorphic_shapes, Client.compile_and_load, CompileOptions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aotc_runtime.base.errors import refusal
from aotc_runtime.base.rendering import first_line
from aotc_runtime.verification.verify_bundle import VerifiedBlob


def compiled(
    client: Any,
    devices: Sequence[Any],
    error_type: type[Exception],
    module: VerifiedBlob,
    shapes: Sequence[tuple[int, ...]],
    options: Mapping[str, str],
    where: str,
) -> Any:
    """jaxlib's executable of a module for inputs of these shapes. Raises BackendError
    (AOTC-E756).
    """
    try:
        from jaxlib import _jax, xla_client

        refined = _jax.mlir.refine_polymorphic_shapes(
            _with_static_main(bytes(module.data), shapes),
            enable_shape_assertions=True,
            validate_static_shapes=True,
            enable_shardy=False,
        )
        compile_options = xla_client.CompileOptions()
        compile_options.env_option_overrides = sorted(options.items())
        return client.compile_and_load(refined, devices, compile_options)
    except (error_type, ImportError, AttributeError, TypeError, ValueError) as error:
        raise refusal("AOTC-E756", where, first_line(error)) from error


def _with_static_main(artifact: bytes, shapes: Sequence[tuple[int, ...]]) -> bytes:
    """The module, as bytecode, with a @main of these shapes that calls the symbolic one: XLA
    refines what a function of static shapes calls.
    """
    from io import BytesIO

    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import func, stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    with context, ir.Location.unknown():
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        symbolic = ir.SymbolTable(module.operation)["main"]
        ir.SymbolTable.set_symbol_name(symbolic, "symbolic")
        ir.SymbolTable.set_visibility(symbolic, "private")
        type_ = ir.FunctionType(ir.TypeAttr(symbolic.attributes["function_type"]).value)
        elements = [ir.RankedTensorType(each).element_type for each in type_.inputs]
        static = [
            ir.RankedTensorType.get(list(shape), element)
            for shape, element in zip(shapes, elements, strict=True)
        ]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(static, type_.results))
            with ir.InsertionPoint(main.add_entry_block()):
                converted = [
                    stablehlo.ConvertOp(wanted, argument).result
                    for wanted, argument in zip(type_.inputs, main.arguments, strict=True)
                ]
                call = func.CallOp(type_.results, "symbolic", converted)
                func.ReturnOp(call.results)
        bytecode = BytesIO()
        module.operation.write_bytecode(bytecode)
    return bytecode.getvalue()
