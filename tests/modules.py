"""Modules in text form, as jax's own reader has them."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _sdy
from jaxlib.mlir.dialects import stablehlo


def parsed(text: str) -> ir.Module:
    """A module, in a context of its own that knows all dialects."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    _sdy.register_dialect(context)
    with context:
        return ir.Module.parse(text)
